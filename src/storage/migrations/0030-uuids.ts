import type { Kysely } from 'kysely'

/** Adds the progress of changes to tables whose rows have UUIDs. */
export async function uuids({ schema }: Kysely<unknown>): Promise<void> {
  await schema.alterTable('schema_changes').addColumn('last_uuid', 'text').execute()
}
