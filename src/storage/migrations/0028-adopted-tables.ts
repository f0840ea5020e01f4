import type { Kysely } from 'kysely'

/**
 * Adds a flag for tables that existed before a resource was mapped to them. The service never drops a flagged table.
 */
export async function adoptedTables({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .alterTable('resource_tables')
    .addColumn('adopted', 'smallint', (c) => c.notNull().defaultTo(0))
    .execute()
}
