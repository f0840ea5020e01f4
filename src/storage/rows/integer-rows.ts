import { type RawBuilder, sql } from 'kysely'
import type { Queryable } from '../database.ts'
import type { Engine } from '../engine.ts'
import type { IdType, RowId } from '../ids.ts'
import { type ColumnNames, columnOfField } from './column-names.ts'
import { type RowPrecondition, wherePrecondition } from './precondition.ts'
import { isOneOf } from './related-rows.ts'

interface Selected {
  table: string
  ids: readonly RowId[]
  idType: IdType
  /** Names of the fields to read: references, and fields that are stored as integers. */
  fields: readonly string[]
  columns?: ColumnNames | undefined
  /** The locking clause; by default, rows are not locked. */
  lock?: RawBuilder<unknown>
  precondition?: RowPrecondition
}

/** The id and fields of a row; the fields are text: the decimal digits of the stored integers, or UUIDs. */
export type IntegerRow = { id: RowId } & Record<string, string | null | number>

/** Reads integer and reference fields of rows as text, in the order of their ids, and optionally locks the rows. */
export async function integerRows(
  tx: Queryable,
  engine: Engine,
  { table, ids, idType, fields, columns: names, lock = sql``, precondition = {} }: Selected,
): Promise<IntegerRow[]> {
  if (ids.length === 0) return []
  const columns = fields.map((field) =>
    sql<string | null>`cast(${sql.ref(columnOfField(field, names))} as text)`.as(field),
  )
  // Typed as `products`, because all resource tables have the same bookkeeping columns.
  const query = tx
    .selectFrom(table as 'products')
    .select(['id', ...columns])
    .where(isOneOf(engine, 'id', ids, idType))
    .orderBy('id')
  return (await wherePrecondition(query, precondition).modifyEnd(lock).execute()) as IntegerRow[]
}
