import type { Kysely } from 'kysely'

/** Adds a column for client labels, as JSON; existing clients have none. */
export async function clientLabels({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .alterTable('clients')
    .addColumn('labels', 'text', (column) => column.notNull().defaultTo('{}'))
    .execute()
}
