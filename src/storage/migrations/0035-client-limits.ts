import type { Kysely } from 'kysely'

/** Adds the rate and the quota of a client; null means the defaults. */
export async function clientLimits({ schema }: Kysely<unknown>): Promise<void> {
  await schema.alterTable('clients').addColumn('rate', 'text').execute()
  await schema.alterTable('clients').addColumn('quota', 'integer').execute()
}
