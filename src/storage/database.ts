import type { Compilable, InsertQueryBuilder, InsertResult, Kysely, RawBuilder } from 'kysely'
import type { Engine } from './engine.ts'
import type { RowId } from './ids.ts'
import type { RowLog } from './row-changes/row-log.ts'
import type { Scan } from './scans/scan.ts'
import type { Tables } from './tables/tables.ts'
import type { TextIndex } from './text-index/text-index.ts'

/** Runs a unit of work. Resolves after its transaction has been committed and, unless `isBestEffort`, synced to disk. */
export type Write<Tx> = <T>(unit: (tx: Tx) => Promise<T>) => Promise<T>

/** A query builder: `database.read` outside transactions, or the argument of a write unit within one. */
export type Queryable = Kysely<Tables>

/** A statement that is compiled once. `all` reads outside transactions; `in` runs within a write unit. */
export interface PreparedStatement<Row> {
  all: (values: readonly unknown[]) => Row[] | Promise<Row[]>
  in: (tx: Queryable, values: readonly unknown[]) => Promise<{ rows: Row[]; changed: number }>
}

/**
 * An INSERT into any resource table. It is typed as `products`, because all resource tables have the same bookkeeping
 * columns.
 */
export type Insertion = InsertQueryBuilder<Tables, 'products', InsertResult>

/**
 * A one-row INSERT, compiled once. Returns the row's id if the database generates it, and the result of an expression
 * evaluated after the insert.
 */
export type PreparedInsert = (tx: Queryable, values: readonly unknown[]) => Promise<{ id: number; result: number }>

/**
 * The maximum numbers of connections that a process opens to PostgreSQL, besides one for each report being generated.
 * `main` and `reserved` connect to the pooler if there is one, all others to the server.
 */
export const maxConnections = {
  /** For requests and jobs. */
  main: 10,
  /** For authentication and health checks. */
  reserved: 5,
  /** For reads that may scan many rows because no index bounds them. */
  scans: 4,
  /** For counting requests. */
  counters: 4,
  /** For the queue, where jobs are run. */
  queue: 4,
  /** For the queue, where jobs are only added. */
  adding: 1,
  /** For LISTEN. */
  wakeUps: 1,
  /** For the lock of a node. */
  node: 1,
  /** For creating text indexes. */
  textIndex: 1,
} as const

/**
 * The smallest pool size. With only one connection, a statement that depends on another statement in the same pool
 * would wait forever.
 */
const minPool = 2

/** Returns the size of a pool in each of several threads that share a number of connections. */
export const poolShare = (connections: number, threads: number): number =>
  Math.max(minPool, Math.ceil(connections / threads))

/**
 * The state of a connection pool: the numbers of open and idle connections, and of requests waiting for a connection.
 */
export interface PoolMeasures {
  pool: string
  max: number
  open: number
  idle: number
  waiting: number
}

/** Measurements of a database. */
export interface DatabaseMeasures {
  /** PostgreSQL only. */
  pools: PoolMeasures[]
  /** The size of the write-ahead log of a SQLite file; null on PostgreSQL. */
  walBytes: number | null
}

/** Called after each write transaction with the number of its units of work and its duration. */
export type OnCommit = (units: number, seconds: number) => void

/**
 * Numbers the write transactions in ascending order. Data read when `last` returned n is still current if the number of
 * its table or row is at most n. A commit by another process counts as a change to everything.
 */
export interface ChangeTracker {
  /** Returns the number of the last transaction. */
  last: () => number
  /** Returns the number of the last transaction that may have changed, added or removed rows of a table. */
  lastOf: (table: string) => number
  /** Returns the number of the last transaction that may have changed or removed a row. */
  lastOfRow: (table: string, id: RowId) => number
  /**
   * Returns the number that a row changed by the open transaction gets when the transaction is committed. If the
   * transaction changes the row again, the row gets a higher number.
   */
  pending: () => number
}

/** A database that is open for reading only. */
export interface ReadOnlyDatabase extends Pick<Database, 'engine' | 'read' | 'url'> {
  /** True for a SQLite file that no other process had open, so it was opened as immutable. */
  isUnused?: boolean
  close: () => Promise<void>
}

export interface Database {
  engine: Engine
  read: Queryable
  write: Write<Queryable>
  /** Compiles a statement; each run passes the parameter values in order. */
  prepare: <Row>(query: Compilable<Row>) => PreparedStatement<Row>
  /** Compiles a one-row INSERT, and an expression to evaluate after the insert. */
  prepareInsert: (query: Insertion, expression: RawBuilder<number>) => PreparedInsert
  /** Runs reads that may scan many rows because no index bounds them. */
  scan: Scan
  /** Finds rows by substrings of their text. */
  textIndex: TextIndex
  /**
   * The same database for admission checks (authentication, rate limits). On PostgreSQL it has its own connections, so
   * these checks never wait for requests that have already been admitted.
   */
  reserved: Database
  /** Logs changes of rows in the transactions that make them. */
  rowLog: RowLog
  /** Lets caches check whether their data has changed. Null if this check would cost as much as a new read. */
  changes: ChangeTracker | null
  /** Resolves if the database responds to a trivial query; rejects otherwise. */
  ping: () => Promise<void>
  /** Returns measurements of the connections and files, without a query. */
  measure: () => DatabaseMeasures
  /** The URL of this database, for a job queue that opens its own connections. */
  url: string
  close: () => Promise<void>
}
