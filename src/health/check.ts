import type { Config } from '../config/config.ts'
import type { Definition } from '../definition/service.ts'
import type { ResultStore } from '../files/store.ts'
import type { Queryable, ReadOnlyDatabase } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'
import type { TableSize } from '../storage/table-sizes.ts'

/** The statuses of a check, from best to worst. */
export const statuses = ['pass', 'warn', 'fail'] as const
export type Status = (typeof statuses)[number]

/** The outcome of a check. */
export interface Finding {
  status: Status
  /** Describes what the check found. */
  detail: string
  /** A command or setting that solves the problem; only for `warn` and `fail`. */
  cure?: string
}

/** The input of every check. */
export interface HealthContext {
  config: Config
  definition: Pick<Definition, 'tables'>
  /** The absolute path of the data folder. */
  dataDir: string
  /** The Node.js versions, environment, options and user of this process. */
  runtime: Runtime
  /** This machine's clock, in epoch ms, which may be wrong. */
  now: () => number
  /** Returns the monotonic time in ms. */
  monotonic: () => number
  /** Whether to run the deep checks, which take longer the more data there is. */
  isDeep: boolean
  /** Opens the result store at a URL. */
  openResults: (url: string) => Promise<Pick<ResultStore, 'probe' | 'open'>>
}

export type Runtime = Pick<NodeJS.Process, 'versions' | 'env' | 'execArgv' | 'getuid'>

/** The additional input of database checks. */
export interface DatabaseContext extends HealthContext {
  db: Pick<ReadOnlyDatabase, 'read' | 'engine' | 'url' | 'isUnused'>
  /**
   * Returns the sealer with the database's keys. Returns null if there is no usable master key, which other checks
   * report. Rejects with `Unsealable` if the database has a different master key.
   */
  readSealer: (read: Queryable) => Promise<Sealer | null>
  /** Returns the database's current time, in epoch ms. Compare times in the database with it, not with `now`. */
  databaseNow: () => Promise<number>
  /** Returns the sizes of the tables, largest first; null if measuring them takes too long. */
  tableSizes: () => Promise<Pick<TableSize, 'table' | 'bytes'>[] | null>
}

/** A health check. */
export interface Check<Context> {
  /** Unique. It must never change, because monitoring systems refer to it. */
  id: `${string}.${string}`
  /** The heading under which the check is listed. */
  area: Area
  title: string
  /** When the check warns and when it fails, as text for the documentation. */
  rule: string
  /**
   * `only`: the check runs only with `--deep`. `also`: it checks more with `--deep`. Neither has a time limit with
   * `--deep`, because the duration grows with the amount of data.
   */
  deep?: 'only' | 'also'
  /** Returns null if the check does not apply. If it throws, the check fails. */
  run: (context: Context) => Finding | null | Promise<Finding | null>
}

/** The areas in the order in which they are listed. */
export const areas = [
  ...([
    'runtime',
    'settings',
    'files',
    'TLS',
    'keys',
    'database',
    'nodes',
    'queue',
    'webhooks',
    'audit',
    'backups',
  ] as const),
]
export type Area = (typeof areas)[number]

/** Compares two checks by the order of their areas, for sorting. */
export const byArea = (one: { area: Area }, other: { area: Area }) =>
  areas.indexOf(one.area) - areas.indexOf(other.area)

export const pass = (detail: string): Finding => ({ status: 'pass', detail })
export const warn = (detail: string, cure: string): Finding => ({ status: 'warn', detail, cure })
export const fail = (detail: string, cure: string): Finding => ({ status: 'fail', detail, cure })

/** Returns the worst of these statuses; `pass` if there are none. */
export const worst = (found: readonly Status[]): Status =>
  statuses.findLast((status) => found.includes(status)) ?? 'pass'

/** Returns `fail` in production and `warn` in development. */
export const unlessDevelopment = ({ production }: Config) => (production ? fail : warn)
