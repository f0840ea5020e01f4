import type { Kysely } from 'kysely'

/**
 * Adds what access rules need after the request: the facts of the row to an event, and the requester's scopes to a report
 * task.
 */
export async function eventsOfRows({ schema }: Kysely<unknown>): Promise<void> {
  await schema.alterTable('events').addColumn('facts', 'text').execute()
  await schema.alterTable('tasks').addColumn('scopes', 'text').execute()
}
