import { type RawBuilder, sql } from 'kysely'
import type { Database, Queryable } from '../database.ts'
import type { Engine } from '../engine.ts'
import { idOrNone } from '../ids.ts'
import { limitExpression, snake } from './page-query.ts'
import { type RowPrecondition, wherePrecondition } from './precondition.ts'

/**
 * Returns a condition that is true if a column's value is one of these ids. The statement and its plan are the same for
 * any number of ids.
 */
export const isOneOf = (engine: Engine, column: string, ids: readonly number[]): RawBuilder<boolean> =>
  engine.isAmong(sql.ref(column), JSON.stringify(ids))

/** Returns whether a row exists, and locks it so that it continues to exist until the transaction ends. */
export async function existsLocked(tx: Queryable, engine: Engine, table: string, id: number): Promise<boolean> {
  const query = sql`select id from ${sql.ref(table)} where id = ${idOrNone(id)} ${engine.lockKeys}`
  return (await query.execute(tx)).rows.length > 0
}

/** A row to lock until the transaction ends. */
interface Locked {
  table: string
  fields: readonly string[]
  id: number
  precondition: RowPrecondition
  lock: RawBuilder<unknown>
}

/** Locks a row and returns these fields of it; undefined if the row does not exist or does not meet the precondition. */
export function lockedRow(
  tx: Queryable,
  { table, fields, id, precondition, lock }: Locked,
): Promise<Record<string, unknown> | undefined> {
  // Typed as `products`, because all resource tables have the same bookkeeping columns.
  const query = tx
    .selectFrom(table as 'products')
    .select(fields as never)
    .where('id', '=', idOrNone(id))
  return wherePrecondition(query, precondition).modifyEnd(lock).executeTakeFirst()
}

/** Rows with a field that refers to one of these ids, excluding the rows in `except`. */
export interface Referring {
  table: string
  field: string
  ids: readonly number[]
  except: readonly number[]
}

const referring = (engine: Engine, { table, field, ids, except }: Referring) => sql`
  from ${sql.ref(table)} where ${isOneOf(engine, snake(field), ids)} and not ${isOneOf(engine, 'id', except)}`

/**
 * Locks at most `limit` referring rows and returns their ids. Until the transaction ends, no other transaction can
 * change these rows or add references to them.
 */
export async function lockReferring(tx: Queryable, engine: Engine, rows: Referring, limit: number): Promise<number[]> {
  const query = sql<{ id: number }>`
    select id ${referring(engine, rows)} limit ${limitExpression(limit)} ${engine.lockForRemoval}`
  return (await query.execute(tx)).rows.map(({ id }) => id).sort((left, right) => left - right)
}

/** Counts the referring rows, up to `limit`. */
export async function countReferring(tx: Queryable, engine: Engine, rows: Referring, limit: number): Promise<number> {
  const found = sql`select 1 as one ${referring(engine, rows)} limit ${limitExpression(limit)}`
  const query = sql<{ count: number }>`select count(*) as count from (${found}) as counted`
  return Number((await query.execute(tx)).rows[0]?.count)
}

/** Fields, each with the expression that reads its column. */
export type Columns = readonly (readonly [field: string, column: RawBuilder<unknown>])[]

/**
 * Returns a function that reads rows by the ids in a field, unsorted, because sorting would require reading all of them.
 */
export function relatedReader(db: Database, table: string, columns: Columns, field: string) {
  const selected = sql.join(columns.map(([name, column]) => sql`${column} as ${sql.ref(name)}`))
  const query = sql`
    select ${selected} from ${sql.ref(table)} where ${isOneOf(db.engine, snake(field), [])}
    limit ${limitExpression(0)}`
  const plain = db.read.withoutPlugins()
  const prepared = db.prepare<Record<string, unknown>>({ compile: () => query.compile(plain) as never })
  return (ids: readonly number[], limit: number) => prepared.all([JSON.stringify(ids), limit])
}
