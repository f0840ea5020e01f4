import type { Kysely } from 'kysely'

/**
 * Creates the table that records the columns of resource tables, and adds the columns that determine which webhooks
 * receive an event of a resource.
 */
export async function resourceTables(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('resource_tables')
    .addColumn('name', 'text', (c) => c.primaryKey().notNull())
    .addColumn('columns', 'text', (c) => c.notNull())
    .execute()
  await db.schema.alterTable('events').addColumn('audience', 'text').execute()
  await db.schema.alterTable('webhooks').addColumn('scopes', 'text').execute()
  await db.schema.createIndex('webhooks_event').on('webhooks').columns(['event', 'status']).execute()
}
