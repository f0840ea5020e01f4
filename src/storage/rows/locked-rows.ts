import { type RawBuilder, sql } from 'kysely'
import type { Queryable } from '../database.ts'
import type { Engine } from '../engine.ts'
import type { IdType, RowId } from '../ids.ts'
import { hasId, type RowPrecondition, wherePrecondition } from './precondition.ts'
import { isOneOf } from './related-rows.ts'
import { type RowTest, testSql } from './row-test.ts'

interface Tested {
  table: string
  id: RowId
  precondition: RowPrecondition
  lock: RawBuilder<unknown>
  test: RowTest
}

/** Locks a row and returns whether it passes a test; undefined if no row meets the precondition. */
export async function lockedRowPasses(
  tx: Queryable,
  { table, id, precondition, lock, test }: Tested,
): Promise<boolean | undefined> {
  const passes = sql<number>`case when ${testSql(test, { isEach: true })} then 1 else 0 end`.as('passes')
  // Typed as `products`, because all resource tables have the same bookkeeping columns.
  const query = tx
    .selectFrom(table as 'products')
    .select(passes)
    .where(hasId(id))
  const row = await wherePrecondition(query, precondition).modifyEnd(lock).executeTakeFirst()
  return row && row.passes === 1
}

/** Returns true if at least one of the rows with these ids passes a test. */
export async function isAnyPassing(
  tx: Queryable,
  engine: Engine,
  { table, ids, idType, test }: { table: string; ids: readonly RowId[]; idType: IdType; test: RowTest },
): Promise<boolean> {
  const among = isOneOf(engine, 'id', ids, idType)
  const query = sql`select id from ${sql.ref(table)} where ${among} and ${testSql(test, { isEach: true })} limit 1`
  return (await query.execute(tx)).rows.length > 0
}

/** Rows of one table, and the columns that refer to another table. */
interface Referred {
  table: string
  columns: readonly string[]
  target: string
  ids: readonly RowId[]
  idType: IdType
}

/**
 * Locks the rows to which these rows refer, in the order of their ids, until the transaction ends. Returns the locked
 * ids.
 */
export async function lockReferred(tx: Queryable, engine: Engine, of: Referred): Promise<RowId[]> {
  const among = isOneOf(engine, 'id', of.ids, of.idType)
  const referring = of.columns.map((column) => sql`select ${sql.ref(column)} from ${sql.ref(of.table)} where ${among}`)
  const query = sql<{ id: RowId }>`
    select id from ${sql.ref(of.target)} where id in (${sql.join(referring, sql` union all `)}) order by id ${engine.lockRows}`
  return (await query.execute(tx)).rows.map(({ id }) => id)
}
