import type { RawBuilder } from 'kysely'
import type { Database, Queryable } from '../database.ts'
import type { IdType, RowId } from '../ids.ts'
import { type ColumnNames, columnOfField, keyColumnOfField } from './column-names.ts'
import { firstRevision } from './revision.ts'

export type Encode = (values: Record<string, unknown>) => Record<string, unknown>
/** Returns the case-folded text of a field's value, as stored in the companion column. */
export type KeyOf = (field: string, value: unknown) => unknown

interface Insertable {
  ids: IdType
  fields: readonly string[]
  folded: readonly string[]
  columns: ColumnNames | undefined
  keyOf: KeyOf
  encode: Encode
}

/** Returns the function that inserts rows. The statement is compiled only once, because inserts must be fast. */
export function inserter(
  db: Database,
  table: 'products',
  { ids, fields: declared, folded, columns, keyOf, encode }: Insertable,
  subscribed: RawBuilder<number>,
) {
  // The database generates integer ids, but no UUIDs.
  const fields = ids === 'integer' ? declared : ['id', ...declared]
  const stored = fields.map((field) => columnOfField(field, columns))
  const keys = folded.map((field) => keyColumnOfField(field, columns))
  const blank = [...stored, ...keys, 'revision', 'created_at', 'updated_at'].map((column) => [column, null])
  const add = db.read.withoutPlugins().insertInto(table).values(Object.fromEntries(blank))
  const addRow = db.prepareInsert(add, subscribed)
  return async (tx: Queryable, values: Record<string, unknown>, now: string) => {
    const encoded = encode(values)
    const cells: unknown[] = fields.map((field) => encoded[field] ?? null)
    for (const field of folded) cells.push(keyOf(field, values[field]))
    // The first revision, and the times of creation and change.
    cells.push(1, now, now)
    const { id, result } = await addRow(tx, cells)
    return { row: { id: id as RowId, ...values, ...firstRevision(now) }, subscribed: result }
  }
}

/** Returns the encoded values by column, including the values of companion columns. */
export function inColumns(
  encoded: Record<string, unknown>,
  values: Record<string, unknown>,
  { folded, columns, keyOf }: { folded: readonly string[]; columns: ColumnNames | undefined; keyOf: KeyOf },
): Record<string, unknown> {
  const stored = Object.entries(encoded).map(([field, value]) => [columnOfField(field, columns), value])
  const changed = folded.filter((field) => field in values)
  const keys = changed.map((field) => [keyColumnOfField(field, columns), keyOf(field, values[field])])
  return Object.fromEntries([...stored, ...keys])
}
