import { configuredBackups } from '../backup/schedule/start.ts'
import type { Config } from '../config/config.ts'
import { describeSettings } from '../config/describe.ts'
import type { Definition } from '../definition/service.ts'
import type { ResultStore } from '../files/store.ts'
import { healthReader } from '../health/reader.ts'
import { inspections } from '../inspection/inspections.ts'
import type { Log } from '../logging/entries.ts'
import { cachedRead } from '../metrics/cached-read.ts'
import type { Database } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'
import { tableSizesInThread } from '../storage/table-sizes.ts'
import type { Operations } from './routes.ts'
import { measureStorage } from './storage.ts'

export interface OperationsOptions {
  config: Config
  definition: Definition
  db: Database
  sealer: Sealer
  results: ResultStore
  dataDir: string
  version: string
  env: Readonly<Record<string, string | undefined>>
  log: Log
  /** The clock that all nodes share; `wall` is the clock of this machine. */
  now: () => number
  wall: () => number
  monotonic: () => number
  later: (ms: number, run: () => void) => () => void
  /** The scrypt work factor for encrypted backups; defaults to the production value. */
  workFactor?: number
}

const minuteMs = 60_000

/**
 * Creates the data sources and actions of the operator routes. `startBackups` starts the backup schedule, and `stop`
 * stops all work in progress.
 */
export function openOperations(options: OperationsOptions) {
  const { config, db, dataDir, env, log, now, wall, monotonic, later } = options
  const onErrorOf = (what: string) => (err: unknown) => log.error({ what, err }, 'background work failed')
  const cached = <Value>(what: string, freshMs: number, limitMs: number, read: () => Promise<Value>) =>
    cachedRead({ read, freshMs, limitMs, monotonic, later, onError: onErrorOf(what) })
  const tableSizes = cached('table sizes', 5 * minuteMs, 2_000, () => tableSizesInThread(db))
  const clocks = { now: wall, databaseNow: async () => now() }
  const readHealth = healthReader({ ...options, ...clocks, tableSizes, onError: onErrorOf('health') })
  const measuring = { config, dataDir, tableSizes, now }
  const checks = inspections({ db, config, dataDir, readHealth, now, onError: onErrorOf('inspections') })
  const { backups, start: startBackups, stop: stopBackups } = configuredBackups(config, options)
  const operations: Operations = {
    settings: describeSettings(config, env),
    ...{ readHealth, backups, inspections: checks },
    readStorage: cached('storage', minuteMs, 10_000, () => measureStorage(measuring)),
  }
  const stop = async () => {
    await Promise.all([stopBackups(), checks.health.stop(), checks.audit.stop()])
  }
  return { operations, tableSizes, startBackups, stop }
}
