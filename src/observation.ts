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
  /** How many responses per second the request log stores; 0 for none. */
  requestLogRate: number
  dataDir: string
  /** Whether to store samples of the metrics, which one thread of a process does. */
  samples: boolean
  metrics: Metrics
  random: RandomBytes
  onErrorOf: (what: string) => (error: unknown) => void
}

interface CountingOptions extends Pick<Observation, 'onResponse'> {
  log: { access: WriteAccessLine }
  lives: readonly VersionStatus[]
  metrics: Pick<Metrics, 'onResponse'>
  /** Called for every response from a deprecated version; `clientId` is null for an anonymous client. */
  countDeprecated: (version: string, clientId: string | null) => void
}

/** Returns a function that writes the access log, and counts and records responses. */
export function counting({ log, onResponse, lives, countDeprecated, metrics }: CountingOptions): WriteAccessLine {
  const deprecated = versionMatcher(lives, 'deprecated')
  return (line) => {
    metrics.onResponse(line)
    onResponse(line)
    const placed = deprecated?.(line.path)
    if (placed) countDeprecated(placed.life.version, line.client ?? null)
    log.access(line)
  }
}

/** What a process records about its responses, for operators. */
export interface Observation {
  /** Call for every response. */
  onResponse: WriteAccessLine
  close: () => Promise<unknown>
}

/**
 * Starts to record responses in the database: requests per client and day, the busiest clients, users and addresses, the
 * request log, and samples of the metrics.
 */
export function startObservation(options: ObservationOptions): Observation {
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
  const sampler = options.samples ? startSampler(sampling) : null
  return {
    onResponse: (line) => {
      if (line.client !== undefined) perDay.count(line.client)
      traffic.count(line)
      log?.add(line)
    },
    close: () => Promise.all([sampler?.close(), traffic.close(), log?.close(), perDay.close()]),
  }
}
