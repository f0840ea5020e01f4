import type { Compilable, InsertQueryBuilder, InsertResult, Kysely, RawBuilder } from 'kysely'
import type { Engine } from './engine.ts'
import type { Scan } from './scans/scan.ts'
import type { Tables } from './tables/tables.ts'
import type { TextIndex } from './text-index/text-index.ts'

/** Runs a unit of work; resolves only after its transaction has been synced to disk. */
export type Write<Tx> = <T>(unit: (tx: Tx) => Promise<T>) => Promise<T>

/** The query builder: `database.read` outside transactions, or the connection of a write unit inside it. */
export type Queryable = Kysely<Tables>

/** A statement compiled once: `all` reads outside transactions, `in` runs inside a write unit. */
export interface Prepared<Row> {
  all: (values: readonly unknown[]) => Row[] | Promise<Row[]>
  in: (tx: Queryable, values: readonly unknown[]) => Promise<{ rows: Row[]; changed: number }>
}

/** An INSERT into the table of any resource; typed as `products`, whose bookkeeping columns they all have. */
export type Insertion = InsertQueryBuilder<Tables, 'products', InsertResult>

/** An INSERT of one row, compiled once; returns the generated id and the result of the expression evaluated after it. */
export type PreparedInsert = (tx: Queryable, values: readonly unknown[]) => Promise<{ id: number; result: boolean }>

export interface Database {
  engine: Engine
  read: Queryable
  write: Write<Queryable>
  /** Compiles a statement; each run passes the values of its parameters in order. */
  prepare: <Row>(query: Compilable<Row>) => Prepared<Row>
  /** Compiles the INSERT of a row with a generated `id`, and an expression to evaluate after it. */
  prepareInsert: (query: Insertion, expression: RawBuilder<boolean>) => PreparedInsert
  /** Runs reads whose cost is not bounded by an index. */
  scan: Scan
  /** Finds rows by substrings of their text. */
  textIndex: TextIndex
  /**
   * The same database for admission checks (authentication, rate limits). On PostgreSQL it has its own connections, so
   * these checks never wait for requests that were already admitted.
   */
  reserved: Database
  /**
   * A number that changes whenever something may have been written; null if determining it costs as much as reading. Data
   * that was read stays valid as long as the number does not change.
   */
  generation: () => number | null
  /** Resolves when the database responds to a trivial query; rejects otherwise. */
  ping: () => Promise<void>
  /** The URL of this database, for a job queue with its own connections. */
  url: string
  close: () => Promise<void>
}
