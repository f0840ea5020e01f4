import type { Kysely } from 'kysely'

/** What the sweep of reports reads: results in the order of their expiry, and tasks in the order of their end. */
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
