import type { Kysely } from 'kysely'
import type { Engine } from '../engine.ts'

/** Adds the table of files that belong to rows. The files themselves are in the result store. */
export async function storedFiles({ schema }: Kysely<unknown>, { keyType }: Engine): Promise<void> {
  await schema
    .createTable('stored_files')
    .addColumn('key', keyType as never, (c) => c.primaryKey())
    .addColumn('table_name', keyType as never, (c) => c.notNull())
    .addColumn('row_id', keyType as never, (c) => c.notNull())
    .addColumn('state', 'text', (c) => c.notNull())
    .addColumn('size_bytes', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('sha256', 'text')
    .addColumn('stored_at', 'text')
    .addColumn('shares_second', 'integer', (c) => c.notNull().defaultTo(0))
    .addColumn('remove_at', 'text')
    .execute()
  await schema.createIndex('stored_files_row').on('stored_files').columns(['table_name', 'row_id']).execute()
  await schema.createIndex('stored_files_removal').on('stored_files').columns(['remove_at', 'key']).execute()
}
