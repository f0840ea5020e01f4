import { statfs } from 'node:fs/promises'
import type { WriteAccessLine } from './http/server/access-log.ts'
import { loopDelay } from './metrics/history/loop-delay.ts'
import { type SamplerOptions, sampleMs, startSampler } from './metrics/history/sampler.ts'
import type { Metrics } from './metrics/metrics.ts'
import { atEach } from './storage/clock.ts'
import type { RandomBytes } from './storage/ids.ts'
import { requestCounter } from './storage/request-counts.ts'
import type { ThreadContext } from './threads/context.ts'
import { loopDelaysOf } from './threads/memory.ts'
import { trafficCounter } from './traffic/counter.ts'
import { requestLog } from './traffic/request-log.ts'
import { type VersionStatus, versionMatcher } from './versioning/version-of-path.ts'

export interface ObservationOptions extends Omit<SamplerOptions, 'onError' | 'metrics' | 'freeBytes' | 'loopDelayMs'> {
  /** Maximum number of responses per second in the request log; 0 turns it off. */
  requestLogRate: number
  dataDir: string
  /** Null if the service runs in one thread. */
  thread: Pick<ThreadContext, 'number' | 'role' | 'serving' | 'memory'> | null
  onClose: (closer: () => unknown) => void
  metrics: Metrics
  random: RandomBytes
  onErrorOf: (what: string) => (error: unknown) => void
}

interface CountingOptions extends Pick<Observation, 'onResponse'> {
  log: { access: WriteAccessLine }
  lifecycles: readonly VersionStatus[]
  metrics: Pick<Metrics, 'onResponse'>
  /** Called for every response from a deprecated version; `clientId` is null for an anonymous client. */
  countDeprecated: (version: string, clientId: string | null) => void
}

/** Returns a function that counts and records a response, and writes it to the access log. */
export function counting({ log, onResponse, lifecycles, countDeprecated, metrics }: CountingOptions): WriteAccessLine {
  const deprecated = versionMatcher(lifecycles, 'deprecated')
  return (line) => {
    metrics.onResponse(line)
    onResponse(line)
    const placed = deprecated?.(line.path)
    if (placed) countDeprecated(placed.life.version, line.client ?? null)
    log.access(line)
  }
}

/** Collects statistics about the responses of this thread, for operators. */
export interface Observation {
  /** Records a response. Call this for every response. */
  onResponse: WriteAccessLine
  requestLogRate: number
}

/**
 * Stores statistics about responses until the service closes: requests per client and day, the busiest clients, users
 * and addresses, the request log, and samples of the metrics. Each thread stores its own rows of the busiest clients
 * under its own name; only the first thread stores samples.
 */
export function startObservation(options: ObservationOptions): Observation {
  const { thread, db, node, now, metrics, requestLogRate, onErrorOf } = options
  const perDay = requestCounter({ db, now, onError: onErrorOf('request counts') })
  const threadName = thread === null ? node : `${node}.${thread.number}`
  const traffic = trafficCounter({ db, node: threadName, now, onError: onErrorOf('traffic') })
  const rate = Math.ceil(requestLogRate / (thread?.serving ?? 1))
  const logging = { ...options, rate, onUnlogged: metrics.onUnlogged, onError: onErrorOf('request log') }
  const log = rate === 0 ? null : requestLog(logging)
  const freeBytes = async () => {
    const { bavail, bsize } = await statfs(options.dataDir)
    return bavail * bsize
  }
  const loop = measureLoopDelay(options)
  const sampling = { ...options, loopDelayMs: loop.read, freeBytes, onError: onErrorOf('metrics history') }
  const sampler = thread === null || thread.number === 1 ? startSampler(sampling) : null
  options.onClose(() => {
    loop.stop()
    return Promise.all([sampler?.close(), traffic.close(), log?.close(), perDay.close()])
  })
  return {
    onResponse: (line) => {
      if (line.client !== undefined) perDay.count(line.client)
      traffic.count(line)
      log?.add(line)
    },
    requestLogRate,
  }
}

/**
 * Measures the delay of this thread's event loop. `read` returns the largest delay of all threads since the previous
 * call, in ms; the delays of the other threads are up to 15 seconds old.
 */
function measureLoopDelay({ thread, now }: Pick<ObservationOptions, 'thread' | 'now'>) {
  const own = loopDelay()
  if (thread === null) return own
  const delays = loopDelaysOf(thread.memory, thread.number)
  const report = () => delays.report(own.read())
  const stop = thread.number === 1 ? () => {} : atEach(sampleMs, now, report)
  return {
    read: () => {
      report()
      return delays.largest()
    },
    stop: () => {
      stop()
      own.stop()
    },
  }
}
