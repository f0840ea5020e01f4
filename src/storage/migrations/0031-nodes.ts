import type { Kysely } from 'kysely'

/**
 * Creates the table of the service's processes that use this database. Each process updates its row regularly while it
 * runs.
 */
export async function nodes({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('nodes')
    .addColumn('id', 'text', (c) => c.primaryKey().notNull())
    .addColumn('hostname', 'text', (c) => c.notNull())
    .addColumn('pid', 'integer', (c) => c.notNull())
    .addColumn('version', 'text', (c) => c.notNull())
    .addColumn('roles', 'text', (c) => c.notNull())
    .addColumn('schema_version', 'text', (c) => c.notNull())
    .addColumn('settings', 'text', (c) => c.notNull())
    .addColumn('resources', 'text', (c) => c.notNull())
    .addColumn('definition', 'text', (c) => c.notNull())
    .addColumn('clock_ahead_ms', 'integer', (c) => c.notNull())
    .addColumn('started_at', 'text', (c) => c.notNull())
    .addColumn('heartbeat_at', 'text', (c) => c.notNull())
    .execute()
  await schema.createIndex('nodes_started').on('nodes').columns(['started_at', 'id']).execute()
  await schema.createIndex('nodes_heartbeat').on('nodes').column('heartbeat_at').execute()
}
