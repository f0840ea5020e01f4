import type { Queryable } from '../database.ts'
import type { ResourceColumn, ResourceTable } from './resource-columns.ts'

/** A column as declared when its table was last reconciled. */
export type RecordedColumn = Omit<ResourceColumn, 'sql'>

/** Returns what is recorded about a table, so that a later start can detect changes to the declaration. */
export const recordOf = ({ columns }: ResourceTable): RecordedColumn[] => columns.map(({ sql: _, ...column }) => column)

/** Reads a table's record as JSON text; undefined if there is none. */
export async function recordedColumns(tx: Queryable, name: string): Promise<string | undefined> {
  const query = tx.selectFrom('resourceTables').select('columns').where('name', '=', name)
  return (await query.executeTakeFirst())?.columns
}

/** Replaces the record of a table; `columns` is JSON text. */
export async function saveRecord(tx: Queryable, name: string, columns: string): Promise<void> {
  await tx
    .insertInto('resourceTables')
    .values({ name, columns })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ columns }))
    .execute()
}
