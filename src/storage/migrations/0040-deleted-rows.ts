import type { Kysely } from 'kysely'
import type { Engine } from '../engine.ts'

/** Adds the table of deleted rows that can be restored. */
export async function deletedRows({ schema }: Kysely<unknown>, { keyType }: Engine): Promise<void> {
  await schema
    .createTable('deleted_rows')
    .addColumn('table_name', keyType as never, (c) => c.notNull())
    .addColumn('row_id', keyType as never, (c) => c.notNull())
    .addColumn('content', 'text', (c) => c.notNull())
    .addColumn('deleted_by', 'text', (c) => c.notNull())
    .addColumn('deleted_at', 'text', (c) => c.notNull())
    .addColumn('expires_at', 'text', (c) => c.notNull())
    .addPrimaryKeyConstraint('deleted_rows_key', ['table_name', 'row_id'])
    .execute()
  const index = schema.createIndex('deleted_rows_newest').on('deleted_rows')
  await index.columns(['table_name', 'deleted_at', 'row_id']).execute()
  await schema.createIndex('deleted_rows_expiry').on('deleted_rows').column('expires_at').execute()
}
