import type { Kysely } from 'kysely'

/**
 * Adds the data that access rules need after a request has ended: the row's facts to events, and the requester's scopes
 * to report tasks.
 */
export async function eventsOfRows({ schema }: Kysely<unknown>): Promise<void> {
  await schema.alterTable('events').addColumn('facts', 'text').execute()
  await schema.alterTable('tasks').addColumn('scopes', 'text').execute()
}
