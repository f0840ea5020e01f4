import type { Kysely } from 'kysely'

/** Adds a column for the progress of batched changes to tables with UUIDs as ids. */
export async function uuids({ schema }: Kysely<unknown>): Promise<void> {
  await schema.alterTable('schema_changes').addColumn('last_uuid', 'text').execute()
}
