import type { Kysely } from 'kysely'

/** Lets batched changes to tables with UUIDs as ids record their progress. */
export async function uuids({ schema }: Kysely<unknown>): Promise<void> {
  await schema.alterTable('schema_changes').addColumn('last_uuid', 'text').execute()
}
