import { statfs } from 'node:fs/promises'
import type { WriteAccessLine } from './http/server/access-log.ts'
import { type SamplerOptions, startSampler } from './metrics/history/sampler.ts'
import type { Metrics } from './metrics/metrics.ts'
import type { RandomBytes } from './storage/ids.ts'
import { requestCounter } from './storage/request-counts.ts'
import { trafficCounter } from './traffic/counter.ts'
import { requestLog } from './traffic/request-log.ts'
import { type VersionStatus, versionMatcher } from './versioning/version-of-path.ts'

export interface ObservationOptions extends Omit<SamplerOptions, 'onError' | 'metrics' | 'freeBytes'> {
  /** Maximum number of responses per second in the request log; 0 turns it off. */
  requestLogRate: number
  dataDir: string
  /** Null if the service runs in one thread. */
  thread: { number: number } | null
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
 * and addresses, the request log, and samples of the metrics. Each thread stores its own rows under its own name; only
 * the first thread stores samples.
 */
export function startObservation(given: ObservationOptions): Observation {
  const { thread } = given
  const options = { ...given, node: thread === null ? given.node : `${given.node}.${thread.number}` }
  const { db, node, now, metrics, requestLogRate: rate, onErrorOf } = options
  const perDay = requestCounter({ db, now, onError: onErrorOf('request counts') })
  const traffic = trafficCounter({ db, node, now, onError: onErrorOf('traffic') })
  const logging = { ...options, rate, onUnlogged: metrics.onUnlogged, onError: onErrorOf('request log') }
  const log = rate === 0 ? null : requestLog(logging)
  const freeBytes = async () => {
    const { bavail, bsize } = await statfs(options.dataDir)
    return bavail * bsize
  }
  const sampling = { ...options, freeBytes, onError: onErrorOf('metrics history') }
  const sampler = thread === null || thread.number === 1 ? startSampler(sampling) : null
  options.onClose(() => Promise.all([sampler?.close(), traffic.close(), log?.close(), perDay.close()]))
  return {
    onResponse: (line) => {
      if (line.client !== undefined) perDay.count(line.client)
      traffic.count(line)
      log?.add(line)
    },
    requestLogRate: rate,
  }
}
