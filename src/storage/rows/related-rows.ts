import { type RawBuilder, sql } from 'kysely'
import type { Database, Queryable } from '../database.ts'
import type { Engine } from '../engine.ts'
import { compareIds, type IdType, type RowId } from '../ids.ts'
import type { ScanRequester } from '../scans/scan.ts'
import { type Codec, rowCodec } from './column-codec.ts'
import { type ColumnNames, columnOfField } from './column-names.ts'
import { limitExpression, readColumn } from './page-query.ts'
import { hasId, type RowPrecondition, wherePrecondition } from './precondition.ts'
import { passesAll, type RowTest, testSql } from './row-test.ts'

/**
 * Returns a condition that is true if a column's value is one of these ids. The statement and its plan are the same for
 * any number of ids.
 */
export const isOneOf = (engine: Engine, column: string, ids: readonly RowId[], idType: IdType): RawBuilder<boolean> =>
  engine.isAmong(sql.ref(column), JSON.stringify(ids), idType)

/**
 * Returns whether a row exists and passes a test, and locks it so that it continues to exist until the transaction
 * ends.
 */
export async function existsLocked(
  tx: Queryable,
  engine: Engine,
  { table, id, test }: { table: string; id: RowId; test: RowTest },
): Promise<boolean> {
  const passing = test === passesAll ? sql`` : sql`and ${testSql(test, { isEach: true })}`
  const query = sql`select id from ${sql.ref(table)} where ${hasId(id)} ${passing} ${engine.lockKeys}`
  return (await query.execute(tx)).rows.length > 0
}

/** A row to lock until the transaction ends. */
interface Locked {
  table: string
  fields: readonly string[]
  columns?: ColumnNames | undefined
  id: RowId
  precondition: RowPrecondition
  lock: RawBuilder<unknown>
}

/** Locks a row and returns these fields; undefined if the row does not exist or does not meet the precondition. */
export function lockedRow(
  tx: Queryable,
  { table, fields, columns, id, precondition, lock }: Locked,
): Promise<Record<string, unknown> | undefined> {
  // Typed as `products`, because all resource tables have the same bookkeeping columns.
  const query = tx
    .selectFrom(table as 'products')
    .select(fields.map((field) => sql.ref(columnOfField(field, columns)).as(field)) as never)
    .where(hasId(id))
  return wherePrecondition(query, precondition).modifyEnd(lock).executeTakeFirst()
}

/** Rows whose column contains one of these ids, except the rows in `except`. */
export interface Referring {
  table: string
  /** The SQL name of the column. */
  column: string
  ids: readonly RowId[]
  /** The type of the ids in the column. */
  idType: IdType
  except: Excepted
}

/** Rows to exclude, by their own ids. */
interface Excepted {
  ids: readonly RowId[]
  idType: IdType
}

const referring = (engine: Engine, { table, column, ids, idType, except }: Referring) => sql`
  from ${sql.ref(table)}
  where ${isOneOf(engine, column, ids, idType)} and not ${isOneOf(engine, 'id', except.ids, except.idType)}`

/**
 * Locks at most `limit` referring rows and returns their ids. Until the transaction ends, no other transaction can
 * change these rows or add references to them.
 */
export async function lockReferring(tx: Queryable, engine: Engine, rows: Referring, limit: number): Promise<RowId[]> {
  const query = sql<{ id: RowId }>`
    select id ${referring(engine, rows)} limit ${limitExpression(limit)} ${engine.lockForRemoval}`
  return (await query.execute(tx)).rows.map(({ id }) => id).sort(compareIds)
}

/** Returns the number of referring rows, up to `limit`, and how many of them pass a test. */
export async function countReferring(
  tx: Queryable,
  engine: Engine,
  rows: Referring & { passing: RowTest },
  limit: number,
): Promise<{ all: number; passing: number }> {
  const passes = sql`case when ${testSql(rows.passing, { isEach: true })} then 1 else 0 end`
  const found = sql`select ${passes} as passes ${referring(engine, rows)} limit ${limitExpression(limit)}`
  const query = sql<{ all: number; passing: number | null }>`
    select count(*) as "all", sum(passes) as passing from (${found}) as found`
  const [counts] = (await query.execute(tx)).rows
  return { all: Number(counts?.all), passing: Number(counts?.passing) }
}

/** Fields, each with the expression that reads its column. */
export type Columns = readonly (readonly [field: string, column: RawBuilder<unknown>])[]

/**
 * Returns the function that reads the rows whose column has one of these ids, in no particular order, because sorting
 * would read all of them.
 */
export function relatedReader(db: Database, { table, columns, column, idType }: Omit<RelatedRows, 'ids' | 'limit'>) {
  const selected = sql.join(columns.map(([field, read]) => sql`${read} as ${sql.ref(field)}`))
  const query = sql`
    select ${selected} from ${sql.ref(table)} where ${isOneOf(db.engine, column, [], idType)}
    limit ${limitExpression(0)}`
  const plain = db.read.withoutPlugins()
  const prepared = db.prepare<Record<string, unknown>>({ compile: () => query.compile(plain) as never })
  return (ids: readonly RowId[], limit: number) => prepared.all([JSON.stringify(ids), limit])
}

/**
 * A test that rows must pass. Any number of rows may fail it, so unless the rows are read by id, the read is a scan on
 * behalf of the requester.
 */
export interface Passing {
  test: RowTest
  requester: ScanRequester
}

interface RelatedRows {
  table: string
  columns: Columns
  /** The SQL name of the column with the ids. */
  column: string
  ids: readonly RowId[]
  idType: IdType
  limit: number
}

/** Reads the rows whose column has one of these ids and that pass a test, in no particular order. */
export async function readPassing(db: Database, rows: RelatedRows, { test, requester }: Passing) {
  const { table, columns, column, ids, idType, limit } = rows
  const selected = sql.join(columns.map(([field, read]) => sql`${read} as ${sql.ref(field)}`))
  const isBounded = column === 'id'
  const query = sql<Record<string, unknown>>`
    select ${selected} from ${sql.ref(table)}
    where ${isOneOf(db.engine, column, ids, idType)} and ${testSql(test, { isEach: true })}
      ${isBounded ? sql`` : sql`and ${db.engine.interruptible(table)}`}
    limit ${limitExpression(limit)}`
  const plain = db.read.withoutPlugins()
  const compiled = query.compile(plain)
  return isBounded ? (await plain.executeQuery(compiled)).rows : db.scan({ compile: () => compiled }, requester)
}

/** Reads a row by its id, in a transaction. */
export type StoredRowReader = (tx: Queryable, id: RowId) => Promise<Record<string, unknown> | undefined>

/**
 * Returns the function that reads these fields of a row. `codecs` contains the codecs of the fields that are stored in
 * a different form.
 */
export function storedRowReader(of: {
  table: string
  fields: readonly string[]
  columns?: ColumnNames | undefined
  codecs: Readonly<Record<string, Codec>>
}): StoredRowReader {
  const wide = Object.keys(of.codecs).filter((field) => of.codecs[field]?.isWide)
  const selected = sql.join(
    of.fields.map((field) => sql`${readColumn(field, { wide, columns: of.columns })} as ${sql.ref(field)}`),
  )
  const { decode } = rowCodec(of.codecs)
  return async (tx, id) => {
    const query = sql<Record<string, unknown>>`select ${selected} from ${sql.ref(of.table)} where ${hasId(id)}`
    return decode((await query.execute(tx.withoutPlugins())).rows[0])
  }
}
