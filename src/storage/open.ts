import { type Database, maxConnections, type OnCommit, type ReadOnlyDatabase } from './database.ts'
import type { Snapshot } from './snapshots/snapshot.ts'
import type { SqliteOptions } from './sqlite/open.ts'
import { sqlitePath } from './sqlite/path.ts'
import type { Unindexed } from './text-index/builder.ts'
import { realTimer, type SetTimer } from './timer.ts'

export interface OpenOptions {
  /** PostgreSQL only: the maximum number of connections for requests and jobs; default 10. */
  poolSize?: number
  /**
   * For counters on PostgreSQL: statements time out after 0.5 s, and a server crash may lose the last second of writes.
   */
  isBestEffort?: boolean
  /**
   * The URL of the connection pooler in front of the PostgreSQL server, for statements that do not depend on a session.
   */
  poolerUrl?: string | null
  /** Timers that enforce the time limit of scans; default: real timers. */
  setTimer?: SetTimer
  onCommit?: OnCommit
  /** Set if several threads of this process use the SQLite file. */
  shared?: SqliteOptions['shared']
  /** Number of threads in this process that share its connections to PostgreSQL; default 1. */
  divisor?: number
  /** Receives errors from background work that no caller awaits. */
  onError?: (error: unknown) => void
  /** Called once with the path of a SQLite file when a statement encounters a damaged page. */
  onDamage?: (error: unknown, path: string) => void
  /** How far the text index of a SQLite file may lag behind; by default, 10,000 new rows and 1,000 changes. */
  unindexed?: Unindexed
}

/** Opens a `postgres://…` URL, or a SQLite file given as a `file:` URL or a path. Throws if it cannot be opened. */
export async function openDatabase(url: string, options: OpenOptions = {}): Promise<Database> {
  const {
    poolSize = maxConnections.main,
    isBestEffort = false,
    divisor = 1,
    poolerUrl = null,
    setTimer = realTimer,
    onCommit = () => {},
  } = options
  const path = sqlitePath(url)
  // Imported on demand, so that a service loads only one engine's client.
  if (path !== null) return (await import('./sqlite/open.ts')).openSqlite(url, path, { ...options, setTimer })
  return (await import('./postgres/driver.ts')).openPostgres(url, {
    ...{ poolSize, divisor, isBestEffort, poolerUrl, setTimer, onCommit },
  })
}

/**
 * Opens an existing database for reading, with one connection; creates and changes nothing. If `isUnlimited` is set,
 * statements have no time limit. Throws if the database cannot be opened.
 */
export async function openReadOnly(url: string, { isUnlimited = false } = {}): Promise<ReadOnlyDatabase> {
  const path = sqlitePath(url)
  if (path !== null) return (await import('./sqlite/open.ts')).openSqliteReadOnly(url, path)
  return (await import('./postgres/driver.ts')).openPostgresReadOnly(url, isUnlimited)
}

/** Opens a snapshot of a database for reports; accepts the same URLs as `openDatabase`. */
export async function openSnapshot(url: string): Promise<Snapshot> {
  const path = sqlitePath(url)
  if (path !== null) return (await import('./sqlite/snapshot.ts')).sqliteSnapshot(path)
  return (await import('./postgres/snapshot.ts')).postgresSnapshot(url)
}
