import type { Config } from '../config/config.ts'
import type { Definition } from '../definition/service.ts'
import type { ResultStore } from '../files/store.ts'
import type { Queryable, ReadOnlyDatabase } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'
import type { TableSize } from '../storage/table-sizes.ts'

/** From best to worst. */
export const statuses = ['pass', 'warn', 'fail'] as const
export type Status = (typeof statuses)[number]

/** The outcome of a check. */
export interface Finding {
  status: Status
  /** What was found. */
  detail: string
  /** A command or a setting that corrects it; only for `warn` and `fail`. */
  cure?: string
}

/** What every check may read. */
export interface HealthContext {
  config: Config
  definition: Pick<Definition, 'tables'>
  /** The absolute path of the data folder. */
  dataDir: string
  /** Node.js and the user that runs it. */
  runtime: Runtime
  /** This machine's clock, in epoch ms, which may be wrong. */
  now: () => number
  /** A monotonic clock in ms. */
  monotonic: () => number
  /** Whether to make the checks whose cost grows with the data. */
  isDeep: boolean
  /** Opens the result store at a URL. */
  openResults: (url: string) => Promise<Pick<ResultStore, 'probe' | 'open'>>
}

export type Runtime = Pick<NodeJS.Process, 'versions' | 'env' | 'execArgv' | 'getuid'>

/** What the checks of the database may read in addition. */
export interface DatabaseContext extends HealthContext {
  db: Pick<ReadOnlyDatabase, 'read' | 'engine' | 'url' | 'isUnused'>
  /**
   * Opens the keys in the database. Returns null if there is no usable master key, which other checks report; rejects with
   * `Unsealable` if the database has a different master key.
   */
  readSealer: (read: Queryable) => Promise<Sealer | null>
  /** Reads the database's clock, in epoch ms. Times in the database are compared with it, not with `now`. */
  databaseNow: () => Promise<number>
  /** Returns the sizes of the tables, largest first; null if measuring them takes too long. */
  tableSizes: () => Promise<Pick<TableSize, 'table' | 'bytes'>[] | null>
}

/** A check. */
export interface Check<Context> {
  /** Unique and permanent, because monitoring refers to it. */
  id: `${string}.${string}`
  /** The heading under which it is listed. */
  area: Area
  title: string
  /** When the check warns and when it fails, for the documentation. */
  rule: string
  /**
   * `only`: the check is made only with `--deep`. `also`: it then checks more. Deep checks have no time limit, because
   * their cost grows with the data.
   */
  deep?: 'only' | 'also'
  /** Returns null if the check does not apply. An error is a failure of the check. */
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

/** Sorts checks by the order of their areas. */
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
