import type { Kysely } from 'kysely'

/**
 * Adds the API version whose field names a webhook receives. Webhooks registered before have none and receive those of the
 * newest version.
 */
export async function webhookVersions({ schema }: Kysely<unknown>): Promise<void> {
  await schema.alterTable('webhooks').addColumn('version', 'text').execute()
}
