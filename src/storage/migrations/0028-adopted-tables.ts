import type { Kysely } from 'kysely'

/**
 * Adds a mark for tables that existed before a resource was declared over them. The service never drops a marked table.
 */
export async function adoptedTables({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .alterTable('resource_tables')
    .addColumn('adopted', 'smallint', (c) => c.notNull().defaultTo(0))
    .execute()
}
