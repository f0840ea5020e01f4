/** Starts a whole cluster on this machine and tests it under faults; see `--help` and docs/operations.md. */
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startCluster } from './cluster/cluster.ts'
import { type ClusterOptions, readOptions, usage } from './cluster/options.ts'
import { openPrograms, type Programs } from './cluster/processes.ts'
import { runLoad } from './cluster/run.ts'
import { summaryOf } from './cluster/summary.ts'
import { checkout, type EarlierVersion, extractEarlier, findEarlier } from './cluster/upgrade.ts'

const say = (line: string): void => void process.stdout.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`)

/** Returns a generator of random numbers in [0, 1) that are reproducible from the seed. */
function sequence(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 4_294_967_296
  }
}

const signals = ['SIGINT', 'SIGTERM'] as const
/** Aborts the run. The exit handler kills all programs. */
const interrupt = () => process.exit(1)

/**
 * Runs a cluster in a temporary folder, and returns true if all checks passed. Keeps the folder if a check failed or
 * `keep` is set.
 */
async function run(options: ClusterOptions): Promise<boolean> {
  const earlier = options.upgradeFrom === null ? null : findEarlier(options.upgradeFrom)
  const folder = mkdtempSync(join(tmpdir(), 'plinth-cluster-'))
  // PostgreSQL runs as a different user, which needs access to its own folder inside this one.
  chmodSync(folder, 0o711)
  const programs = openPrograms(folder)
  for (const signal of signals) process.once(signal, interrupt)
  let passed = false
  try {
    passed = await runIn(programs, options, earlier)
  } finally {
    await programs.stopAll()
    if (passed && !options.keep) rmSync(folder, { recursive: true, force: true })
    else say(`logs and ledger: ${folder}`)
  }
  return passed
}

async function runIn(programs: Programs, options: ClusterOptions, earlier: EarlierVersion | null): Promise<boolean> {
  const { durationMs, seed } = options
  const code = earlier === null ? checkout : extractEarlier(programs.folder, earlier)
  const cluster = await startCluster(programs, options, code)
  for (const [name, text] of cluster.addresses) say(`${name.padEnd(8)}  ${text}`)
  if (durationMs === null) {
    say('Ctrl-C stops the cluster')
    for (const signal of signals) process.removeListener(signal, interrupt)
    await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')])
    return true
  }
  say(`seed ${seed}${earlier === null ? '' : `, the nodes run ${earlier.name} (${earlier.commit.slice(0, 10)})`}`)
  const result = await runLoad(cluster, options, { folder: programs.folder, durationMs, random: sequence(seed), say })
  for (const line of summaryOf(result, options)) say(line)
  return result.checks.every(({ wrong }) => wrong.length === 0)
}

try {
  const options = readOptions(process.argv.slice(2))
  if (options === null) process.stdout.write(usage)
  else process.exitCode = (await run(options)) ? 0 : 1
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : error}\n`)
  process.exitCode = 1
}
