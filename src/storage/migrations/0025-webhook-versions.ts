import type { Kysely } from 'kysely'

/**
 * Adds the API version that determines the field names in a webhook's events. Webhooks registered before this migration
 * have no version and receive the field names of the newest version.
 */
export async function webhookVersions({ schema }: Kysely<unknown>): Promise<void> {
  await schema.alterTable('webhooks').addColumn('version', 'text').execute()
}
