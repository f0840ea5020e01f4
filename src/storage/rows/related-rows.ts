import { type RawBuilder, sql } from 'kysely'
import type { Database, Queryable } from '../database.ts'
import type { Engine } from '../engine.ts'
import { idOrNone } from '../ids.ts'
import { limitExpression, snake } from './page-query.ts'
import { type RowPrecondition, wherePrecondition } from './precondition.ts'

/** True for rows whose column has one of these ids: one statement, and one plan, for any number of them. */
export const isOneOf = (engine: Engine, column: string, ids: readonly number[]): RawBuilder<boolean> =>
  engine.isAmong(sql.ref(column), JSON.stringify(ids))

/** True if a row exists; it then stays until the end of the transaction. */
export async function existsLocked(tx: Queryable, engine: Engine, table: string, id: number): Promise<boolean> {
  const query = sql`select id from ${sql.ref(table)} where id = ${idOrNone(id)} ${engine.lockKeys}`
  return (await query.execute(tx)).rows.length > 0
}

/** A row to lock until the end of the transaction. */
interface Locked {
  table: string
  fields: readonly string[]
  id: number
  precondition: RowPrecondition
  lock: RawBuilder<unknown>
}

/** These fields of a row, which is locked; undefined if there is none or it does not meet the precondition. */
export function lockedRow(
  tx: Queryable,
  { table, fields, id, precondition, lock }: Locked,
): Promise<Record<string, unknown> | undefined> {
  // Typed as `products`, whose bookkeeping columns every resource table has.
  const query = tx
    .selectFrom(table as 'products')
    .select(fields as never)
    .where('id', '=', idOrNone(id))
  return wherePrecondition(query, precondition).modifyEnd(lock).executeTakeFirst()
}

/** Rows whose field has one of these ids, except some. */
export interface Referring {
  table: string
  field: string
  ids: readonly number[]
  except: readonly number[]
}

const referring = (engine: Engine, { table, field, ids, except }: Referring) => sql`
  from ${sql.ref(table)} where ${isOneOf(engine, snake(field), ids)} and not ${isOneOf(engine, 'id', except)}`

/**
 * Locks at most `limit` rows that refer to others, and returns their ids. Until the transaction ends, no other transaction
 * can change these rows or refer to them.
 */
export async function lockReferring(tx: Queryable, engine: Engine, rows: Referring, limit: number): Promise<number[]> {
  const query = sql<{ id: number }>`
    select id ${referring(engine, rows)} limit ${limitExpression(limit)} ${engine.lockForRemoval}`
  return (await query.execute(tx)).rows.map(({ id }) => id).sort((left, right) => left - right)
}

/** The number of rows that refer to others, up to `limit`. */
export async function countReferring(tx: Queryable, engine: Engine, rows: Referring, limit: number): Promise<number> {
  const found = sql`select 1 as one ${referring(engine, rows)} limit ${limitExpression(limit)}`
  const query = sql<{ count: number }>`select count(*) as count from (${found}) as counted`
  return Number((await query.execute(tx)).rows[0]?.count)
}

/** Fields, each with the column as it is read. */
export type Columns = readonly (readonly [field: string, column: RawBuilder<unknown>])[]

/** Returns the function that reads the rows whose field has one of some ids, in no order: sorting would read all of them. */
export function relatedReader(db: Database, table: string, columns: Columns, field: string) {
  const selected = sql.join(columns.map(([name, column]) => sql`${column} as ${sql.ref(name)}`))
  const query = sql`
    select ${selected} from ${sql.ref(table)} where ${isOneOf(db.engine, snake(field), [])}
    limit ${limitExpression(0)}`
  const plain = db.read.withoutPlugins()
  const prepared = db.prepare<Record<string, unknown>>({ compile: () => query.compile(plain) as never })
  return (ids: readonly number[], limit: number) => prepared.all([JSON.stringify(ids), limit])
}
