import type { Kysely } from 'kysely'

/**
 * Adds the data that access rules need after a request has ended: an event stores facts about its row, and a report
 * task stores the requester's scopes.
 */
export async function eventsOfRows({ schema }: Kysely<unknown>): Promise<void> {
  await schema.alterTable('events').addColumn('facts', 'text').execute()
  await schema.alterTable('tasks').addColumn('scopes', 'text').execute()
}
