import type { Kysely } from 'kysely'

/** Adds indexes for the report sweep: results by expiry, and tasks by completion. */
export async function reportExpiry({ schema }: Kysely<unknown>): Promise<void> {
  await schema.dropIndex('tasks_expiring').ifExists().execute()
  await schema.dropIndex('tasks_ended').ifExists().execute()
  await schema
    .createIndex('tasks_expired_results')
    .on('tasks')
    .columns(['expires_at', 'id'])
    .where('result_key' as never, 'is not', null)
    .execute()
  await schema.createIndex('tasks_over').on('tasks').columns(['completed_at', 'id']).execute()
}
