import type { Kysely } from 'kysely'

/** Marks the tables that existed before a resource was declared over them; the service never drops them. */
export async function adoptedTables({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .alterTable('resource_tables')
    .addColumn('adopted', 'smallint', (c) => c.notNull().defaultTo(0))
    .execute()
}
