import type { Kysely } from 'kysely'

/** Creates the table of counters, which number new rows. */
export async function counters({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('counters')
    .addColumn('name', 'text', (column) => column.primaryKey().notNull())
    .addColumn('value', 'bigint', (column) => column.notNull())
    .execute()
}
