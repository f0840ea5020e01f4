import type { Compilable, InsertQueryBuilder, InsertResult, Kysely, RawBuilder } from 'kysely'
import type { Engine } from './engine.ts'
import type { Write } from './group-commit.ts'
import type { Scan } from './scans/scan.ts'
import type { Tables } from './tables/tables.ts'
import type { TextIndex } from './text-index/text-index.ts'

/** Query interface: `database.read` outside transactions, the unit's own connection inside a write unit. */
export type Queryable = Kysely<Tables>

/** A statement compiled once: `all` reads outside transactions, `in` runs within a write unit. */
export interface Prepared<Row> {
  all: (values: readonly unknown[]) => Row[] | Promise<Row[]>
  in: (tx: Queryable, values: readonly unknown[]) => Promise<{ rows: Row[]; changed: number }>
}

/** An INSERT into a resource's table; the bookkeeping columns are the same in all of them. */
export type Insertion = InsertQueryBuilder<Tables, 'products', InsertResult>

/** An INSERT of one row, compiled once; returns the generated id and the value of the expression evaluated after it. */
export type PreparedInsert = (tx: Queryable, values: readonly unknown[]) => Promise<{ id: number; answer: boolean }>

export interface Database {
  engine: Engine
  read: Queryable
  write: Write<Queryable>
  /** Compiles a statement; its parameters are given, in order, on each run. */
  prepare: <Row>(query: Compilable<Row>) => Prepared<Row>
  /** Compiles the INSERT of a row with a generated `id`, and an expression that is evaluated after it. */
  prepareInsert: (query: Insertion, question: RawBuilder<boolean>) => PreparedInsert
  /** Runs reads whose cost no index bounds. */
  scan: Scan
  /** Finds rows by substrings of their text. */
  textIndex: TextIndex
  /**
   * The same database for admission checks (authentication, rate limits). On PostgreSQL it has its own connections, so these
   * checks never wait for requests that were already admitted.
   */
  reserved: Database
  /**
   * A number that changes whenever something may have been written; null where determining it costs as much as reading.
   * Data that was read stays valid for as long as the number is the same.
   */
  generation: () => number | null
  /** Resolves when the database responds to a trivial query; throws otherwise. */
  ping: () => Promise<void>
  /** The URL of this database, for a queue that needs its own connections. */
  url: string
  close: () => Promise<void>
}
