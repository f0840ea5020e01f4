import type { Kysely } from 'kysely'

/** Adds the trace context of the request that caused an event. Earlier events have none. */
export async function traces({ schema }: Kysely<unknown>): Promise<void> {
  await schema.alterTable('events').addColumn('trace', 'text').execute()
}
