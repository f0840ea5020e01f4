import { setTimeout as sleep } from 'node:timers/promises'
import { type Node, startNode } from './nodes.ts'
import type { ClusterOptions } from './options.ts'
import type { Program } from './processes.ts'

export interface Faults {
  /**
   * How often each fault was injected, and how often a start failed after a kill, for example because PostgreSQL was
   * down.
   */
  counts: { kills: number; postgresRestarts: number; failedStarts: number }
  /** Stops injecting faults. Resolves when every stopped program is running again; rejects if one did not start. */
  stop: () => Promise<void>
}

export interface FaultsOptions extends Pick<ClusterOptions, 'killEveryMs' | 'postgresRestarts'> {
  durationMs: number
  nodes: readonly Node[]
  postgres: Program
  random: () => number
  say: (line: string) => void
}

const downMs = 500

/** Kills a random node at each interval, and restarts PostgreSQL at regular intervals, until `stop` is called. */
export function startFaults(options: FaultsOptions): Faults {
  const stopped = new AbortController()
  const counts = { kills: 0, postgresRestarts: 0, failedStarts: 0 }
  const begunMs = performance.now()
  /** Resolves to true at this time after the start, or to false as soon as the faults are stopped. */
  const at = (ms: number) =>
    sleep(Math.max(0, begunMs + ms - performance.now()), true, { signal: stopped.signal }).catch(() => false)
  const running = [killNodes(options, counts, at), restartPostgres(options, counts, at)]
  // If a program does not start again, no more faults are injected, and `stop` rejects with the error.
  for (const one of running) one.catch(() => stopped.abort())
  return {
    counts,
    stop: async () => {
      stopped.abort()
      await Promise.allSettled(running)
      await Promise.all(running)
    },
  }
}

type Counts = Faults['counts']
type At = (ms: number) => Promise<boolean>

async function killNodes({ killEveryMs, nodes, random, say }: FaultsOptions, counts: Counts, at: At): Promise<void> {
  if (killEveryMs === null) return
  for (let n = 1; await at(n * killEveryMs); n++) {
    const node = nodes[Math.floor(random() * nodes.length)] as Node
    counts.kills++
    await node.program.stop('SIGKILL')
    const killedMs = performance.now()
    await sleep(downMs)
    const failed = await startNode(node)
    counts.failedStarts += failed
    const text = failed > 0 ? `, after ${failed} failed starts` : ''
    say(`killed ${node.name}; it is ready again after ${Math.round(performance.now() - killedMs)} ms${text}`)
  }
}

async function restartPostgres(options: FaultsOptions, counts: Counts, at: At): Promise<void> {
  const { postgres, postgresRestarts, durationMs, say } = options
  for (let n = 1; n <= postgresRestarts; n++) {
    if (!(await at((n * durationMs) / (postgresRestarts + 1)))) return
    const isClean = n % 2 === 1
    counts.postgresRestarts++
    const stoppedMs = performance.now()
    // SIGINT is the fast shutdown. SIGQUIT is the immediate one, after which the server recovers from its write-ahead
    // log.
    await postgres.stop(isClean ? 'SIGINT' : 'SIGQUIT')
    await sleep(downMs)
    await postgres.start()
    const how = isClean ? 'fast' : 'immediate'
    say(
      `restarted PostgreSQL (${how} shutdown); it is ready again after ${Math.round(performance.now() - stoppedMs)} ms`,
    )
  }
}
