import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ClusterClient, openClient, type Response } from './client.ts'
import type { Cluster } from './cluster.ts'
import { type Faults, startFaults } from './faults.ts'
import { openLedger } from './ledger.ts'
import { startLoad } from './load.ts'
import type { ClusterOptions } from './options.ts'
import { type Check, checkLedger } from './oracle.ts'
import { type Receiver, startReceiver } from './receiver.ts'
import { newTally, type Tally, toleratedUnderFaults } from './tally.ts'
import { checkout, upgradeNodes } from './upgrade.ts'

export interface RunOptions {
  folder: string
  durationMs: number
  random: () => number
  say: (line: string) => void
}

/** The statistics and the check results of a run. */
export interface RunResult {
  started: number
  tally: Tally
  faults: Faults['counts']
  checks: Check[]
}

/** Generates the load while injecting faults or upgrading the nodes, then verifies every promise. */
export async function runLoad(cluster: Cluster, options: ClusterOptions, run: RunOptions): Promise<RunResult> {
  const { random, say } = run
  const tally = newTally()
  const closers: (() => unknown)[] = []
  try {
    const ledger = openLedger(join(run.folder, 'ledger.jsonl'))
    closers.push(ledger.close)
    const receiver = await startReceiver(random)
    closers.push(receiver.close)
    const client = await openClient(cluster.baseUrl, cluster.authorityFile, cluster.client)
    closers.push(client.close)
    await register(client, receiver)
    const load = startLoad(options.perSecond, { client, ledger, tally, random })
    closers.push(load.stop)
    const disturbed = await disturb(cluster, options, run)
    await load.stop()
    writeFileSync(join(run.folder, 'failures.log'), tally.failures.map((line) => `${line}\n`).join(''))
    say(`${load.started()} actions, ${ledger.read().length} accepted writes; checking them`)
    const checks = await checkLedger(ledger.read(), client, receiver)
    const tolerated = options.upgradeFrom === null ? toleratedUnderFaults : (['success'] as const)
    checks.push(
      {
        promise: 'nodes exit only when they are stopped, with 0 after SIGTERM',
        cases: cluster.nodes.length,
        wrong: disturbed.wrong,
      },
      {
        promise: 'no stale read, no lost update, no write without an end',
        cases: load.started(),
        wrong: [...tally.violations],
      },
      checkResponses(tally, tolerated),
    )
    return { started: load.started(), tally, faults: disturbed.counts, checks }
  } finally {
    for (const closer of closers.reverse()) await closer()
  }
}

/** Registers webhooks for the load's events at the receiver. */
async function register(client: Pick<ClusterClient, 'send'>, receiver: Receiver): Promise<void> {
  for (const noun of ['product', 'report']) {
    const path = `/${noun}s`
    const body = { event: `${noun}.*`, callbackUrl: receiver.url + path }
    const registered = await client.send('POST', '/api/webhooks', { body })
    if (registered.status !== 201) throw new Error(`The registration of a webhook got ${registered.status}`)
    receiver.trust(path, (registered as Response).json().secret)
  }
}

/** Injects faults or upgrades nodes for the duration of the load; afterwards, all programs are running. */
async function disturb(
  { nodes, postgres, unexpectedExits }: Cluster,
  options: ClusterOptions,
  { durationMs, random, say }: RunOptions,
): Promise<{ counts: Faults['counts']; wrong: string[] }> {
  const endMs = performance.now() + durationMs
  const faults = startFaults({ ...options, durationMs, nodes, postgres, random, say })
  const wrong: string[] = []
  try {
    if (options.upgradeFrom !== null) {
      await sleep(durationMs / 4)
      wrong.push(...(await upgradeNodes({ nodes, code: checkout, say })))
    }
    await sleep(Math.max(0, endMs - performance.now()))
  } finally {
    await faults.stop()
  }
  return { counts: faults.counts, wrong: [...wrong, ...unexpectedExits] }
}

function checkResponses({ counts, failures }: Tally, tolerated: readonly string[]): Check {
  const others = [...counts].filter(([fate]) => !tolerated.includes(fate))
  const isTolerated = (failure: string) =>
    tolerated.some((fate) => failure.split(' ').slice(1).join(' ').startsWith(`${fate} after`))
  const cases = [...counts.values()].reduce((sum, count) => sum + count, 0)
  const wrong = others.map(([fate, count]) => `${fate}: ${count}`)
  const examples = failures.filter((failure) => !isTolerated(failure))
  return {
    promise: `clients see only: ${tolerated.join('; ')}`,
    cases,
    wrong: [...wrong, ...(wrong.length > 0 ? examples : [])],
  }
}
