import type { Kysely } from 'kysely'

/** Adds fair queueing of report tasks, task retries, and daily request counts per client. */
export async function reports(db: Kysely<unknown>): Promise<void> {
  const { schema } = db
  await schema.alterTable('jobs').addColumn('group_id', 'text').execute()
  await schema
    .alterTable('jobs')
    .addColumn('turn', 'integer', (c) => c.notNull().defaultTo(0))
    .execute()
  await schema.alterTable('tasks').addColumn('retry_of', 'text').execute()
  for (const name of ['as_admin', 'turn']) {
    await schema
      .alterTable('tasks')
      .addColumn(name, 'integer', (c) => c.notNull().defaultTo(0))
      .execute()
  }
  await schema.createIndex('tasks_turns').on('tasks').columns(['status', 'owner_client', 'turn']).execute()
  await schema
    .createTable('request_counts')
    .addColumn('day', 'text', (c) => c.notNull())
    .addColumn('client_id', 'text', (c) => c.notNull())
    .addColumn('requests', 'bigint', (c) => c.notNull())
    .addPrimaryKeyConstraint('request_counts_key', ['day', 'client_id'])
    .execute()
}
