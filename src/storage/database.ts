import type { Compilable, InsertQueryBuilder, InsertResult, Kysely, RawBuilder } from 'kysely'
import type { Engine } from './engine.ts'
import type { RowId } from './ids.ts'
import type { Scan } from './scans/scan.ts'
import type { Tables } from './tables/tables.ts'
import type { TextIndex } from './text-index/text-index.ts'

/** Runs a unit of work; resolves only after its transaction has been synced to disk. */
export type Write<Tx> = <T>(unit: (tx: Tx) => Promise<T>) => Promise<T>

/** The query builder: `database.read` outside transactions, or the argument of a write unit inside one. */
export type Queryable = Kysely<Tables>

/** A statement compiled once: `all` reads outside transactions, `in` runs inside a write unit. */
export interface Prepared<Row> {
  all: (values: readonly unknown[]) => Row[] | Promise<Row[]>
  in: (tx: Queryable, values: readonly unknown[]) => Promise<{ rows: Row[]; changed: number }>
}

/**
 * An INSERT into any resource table. It is typed as `products`, because all resource tables have the same bookkeeping
 * columns.
 */
export type Insertion = InsertQueryBuilder<Tables, 'products', InsertResult>

/**
 * A one-row INSERT, compiled once; returns the id that the database generated, if it generates the ids of the table, and
 * the result of an expression evaluated after the insert.
 */
export type PreparedInsert = (tx: Queryable, values: readonly unknown[]) => Promise<{ id: number; result: boolean }>

/**
 * The largest numbers of connections of a process to PostgreSQL, besides one for each report that is generated. `main` and
 * `reserved` lead to the pooler, if there is one, all others to the server.
 */
export const maxConnections = {
  /** For requests and jobs. */
  main: 10,
  /** For authentication and health checks. */
  reserved: 5,
  /** For reads that no index bounds. */
  scans: 4,
  /** For counting requests. */
  counters: 4,
  queue: 4,
  /** For LISTEN. */
  wakeUps: 1,
  /** For the lock of a node. */
  node: 1,
  /** For creating text indexes. */
  textIndex: 1,
} as const

/** The connections of a pool: the numbers of open and idle connections, and of requests that wait for a connection. */
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
 * The numbers of transactions, which grow. Data that was read when `last` was n is unchanged while the number of its table
 * or row is at most n. A commit of another process counts as a change of everything.
 */
export interface Changes {
  /** Returns the number of the last transaction. */
  last: () => number
  /** Returns the number of the last transaction that may have changed, added or removed rows of a table. */
  lastOf: (table: string) => number
  /** Returns the number of the last transaction that may have changed or removed a row. */
  lastOfRow: (table: string, id: RowId) => number
}

/** A database in which nothing is written. */
export interface ReadOnlyDatabase extends Pick<Database, 'engine' | 'read' | 'url'> {
  /** Set if no process used the SQLite file when it was opened, so that it was opened as a file that does not change. */
  isUnused?: boolean
  close: () => Promise<void>
}

export interface Database {
  engine: Engine
  read: Queryable
  write: Write<Queryable>
  /** Compiles a statement; each run passes the parameter values in order. */
  prepare: <Row>(query: Compilable<Row>) => Prepared<Row>
  /** Compiles the INSERT of a row with a generated `id`, and an expression that is evaluated after the insert. */
  prepareInsert: (query: Insertion, expression: RawBuilder<boolean>) => PreparedInsert
  /** Runs reads whose cost is not bounded by an index. */
  scan: Scan
  /** Finds rows by substrings of their text. */
  textIndex: TextIndex
  /**
   * The same database for admission checks (authentication, rate limits). On PostgreSQL it has its own connections, so
   * these checks never wait for requests that have already been admitted.
   */
  reserved: Database
  /** What has changed, for caches of data read; null if finding out costs as much as reading the data again. */
  changes: Changes | null
  /** Resolves if the database responds to a trivial query; rejects otherwise. */
  ping: () => Promise<void>
  /** Returns measurements of the connections and files, without a query. */
  measure: () => DatabaseMeasures
  /** The URL of this database, for a job queue that opens its own connections. */
  url: string
  close: () => Promise<void>
}
