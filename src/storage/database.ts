import type { Compilable, InsertQueryBuilder, InsertResult, Kysely, RawBuilder } from 'kysely'
import type { Engine } from './engine.ts'
import type { Write } from './group-commit.ts'
import type { Scan } from './scans/scan.ts'
import type { Tables } from './tables/tables.ts'
import type { TextIndex } from './text-index/text-index.ts'

/** A connection to query with: outside transactions `database.read`, inside a write unit the unit's own. */
export type Queryable = Kysely<Tables>

/** A statement compiled once: `all` reads outside transactions, `in` runs within a write unit. */
export interface Prepared<Row> {
  all: (values: readonly unknown[]) => Row[] | Promise<Row[]>
  in: (tx: Queryable, values: readonly unknown[]) => Promise<{ rows: Row[]; changed: number }>
}

/** An INSERT into a resource's table; all have the same columns of ours. */
export type Insertion = InsertQueryBuilder<Tables, 'products', InsertResult>

/** An INSERT of one row compiled once: tells the id the engine gave it, and the answer to the question asked with it. */
export type PreparedInsert = (tx: Queryable, values: readonly unknown[]) => Promise<{ id: number; answer: boolean }>

export interface Database {
  engine: Engine
  read: Queryable
  write: Write<Queryable>
  /** Compiles a statement; its parameters are given, in order, on each run. */
  prepare: <Row>(query: Compilable<Row>) => Prepared<Row>
  /** Compiles the INSERT of a row with an `id` of the engine's, and an expression to be asked after it. */
  prepareInsert: (query: Insertion, question: RawBuilder<boolean>) => PreparedInsert
  /** Reads whose cost no index bounds. */
  scan: Scan
  /** What finds rows by parts of their text. */
  textIndex: TextIndex
  /**
   * The same database for what decides whether requests are let in: on PostgreSQL it has connections of its own, so that
   * it waits for no request that was.
   */
  reserved: Database
  /**
   * A number that is another one whenever something may have been written since; null where asking costs as much as
   * reading. What was read stays right for as long as it is the same.
   */
  generation: () => number | null
  /** Resolves when the store answers a trivial query; throws otherwise. */
  ping: () => Promise<void>
  /** The place this database lives at, for a queue that needs connections of its own. */
  url: string
  close: () => Promise<void>
}
