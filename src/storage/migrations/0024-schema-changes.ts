import type { Kysely } from 'kysely'

/** Adds the history of changes to resource tables, including the progress of changes that run in batches. */
export async function schemaChanges({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('schema_changes')
    .addColumn('started_at', 'text', (c) => c.notNull())
    .addColumn('finished_at', 'text')
    .addColumn('table_name', 'text', (c) => c.notNull())
    .addColumn('position', 'integer', (c) => c.notNull())
    .addColumn('column_name', 'text')
    .addColumn('change', 'text', (c) => c.notNull())
    .addColumn('rows', 'bigint', (c) => c.notNull())
    .addColumn('last_id', 'bigint', (c) => c.notNull())
    .addColumn('version', 'text', (c) => c.notNull())
    .addColumn('digest', 'text', (c) => c.notNull())
    .execute()
  await schema.createIndex('schema_changes_started').on('schema_changes').columns(['started_at', 'position']).execute()
}
