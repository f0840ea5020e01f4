import type { Queryable } from '../database.ts'
import type { ResourceColumn, ResourceTable } from './resource-columns.ts'

/** A column as declared when its table was last reconciled. */
export type RecordedColumn = Omit<ResourceColumn, 'sql'>

/** The record of a table from its last reconciliation. */
export interface TableRecord {
  /** The columns as JSON text. */
  text: string
  columns: readonly RecordedColumn[]
  /** True if the table existed before a resource was mapped to it. */
  isAdopted: boolean
}

/** Returns the columns to record for a table, from which a later start detects changes to the declaration. */
export const recordOf = ({ columns }: ResourceTable): RecordedColumn[] => columns.map(({ sql: _, ...column }) => column)

/** Reads the record of a table; undefined if there is none. */
export async function readRecord(tx: Queryable, name: string): Promise<TableRecord | undefined> {
  const query = tx.selectFrom('resourceTables').select(['columns', 'adopted']).where('name', '=', name)
  const found = await query.executeTakeFirst()
  if (found === undefined) return undefined
  return { text: found.columns, columns: JSON.parse(found.columns), isAdopted: found.adopted === 1 }
}

/** Replaces the recorded columns of a table; `columns` is JSON text. */
export async function saveRecord(tx: Queryable, name: string, columns: string): Promise<void> {
  await tx
    .insertInto('resourceTables')
    .values({ name, columns })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ columns }))
    .execute()
}

/** Records that a table existed before a resource was mapped to it. */
export async function recordAdoption(tx: Queryable, name: string): Promise<void> {
  await tx.insertInto('resourceTables').values({ name, columns: '[]', adopted: 1 }).execute()
}
