import { type Kysely, sql } from 'kysely'

/**
 * Adds hourly statistics on the attempts of each webhook, the response headers of failed attempts, and the index for
 * lists of all owners' report tasks.
 */
export async function webhookStatistics(db: Kysely<unknown>): Promise<void> {
  const columns = ['succeeded', 'failed', ...latencies.map((ms) => `up_to_${ms}_ms`)]
  // The hour comes first, so that a sweep finds old rows.
  let table = db.schema
    .createTable('webhook_statistics')
    .addColumn('hour', 'text', (c) => c.notNull())
    .addColumn('webhook_id', 'text', (c) => c.notNull())
    .addPrimaryKeyConstraint('webhook_statistics_key', ['hour', 'webhook_id'])
  for (const column of columns) table = table.addColumn(column, 'integer', (c) => c.notNull().defaultTo(0))
  await table.execute()
  await db.schema.alterTable('attempts').addColumn('response_headers', 'text').execute()
  await sql`create index tasks_age on tasks (created_at, id)`.execute(db)
}

const latencies = [25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 15_000]
