import { type Kysely, sql } from 'kysely'
import type { Engine } from '../engine.ts'

/** The number of histogram buckets in a sample. */
const buckets = 14

/**
 * Creates the tables for the last day's traffic, which operators can inspect: metric samples, the busiest clients,
 * users and addresses, and the request log.
 */
export async function traffic(db: Kysely<unknown>, { keyType }: Engine): Promise<void> {
  await metricSamples(db)
  await busiest(db)
  await db.schema
    .createTable('request_log')
    .addColumn('id', keyType as never, (c) => c.primaryKey().notNull())
    .addColumn('request_id', 'text', (c) => c.notNull())
    .addColumn('node', 'text', (c) => c.notNull())
    .addColumn('method', 'text', (c) => c.notNull())
    .addColumn('path', 'text', (c) => c.notNull())
    .addColumn('status', 'integer', (c) => c.notNull())
    .addColumn('ms', sql`double precision`, (c) => c.notNull())
    .addColumn('client_id', 'text')
    .addColumn('subject', 'text')
    .addColumn('address', 'text')
    .addColumn('error_code', 'text')
    .execute()
  await db.schema.createIndex('request_log_request').on('request_log').columns(['request_id', 'id']).execute()
  await db.schema.createIndex('request_log_client').on('request_log').columns(['client_id', 'id']).execute()
}

async function metricSamples({ schema }: Kysely<unknown>): Promise<void> {
  let table = schema
    .createTable('metric_samples')
    .addColumn('at', 'bigint', (c) => c.notNull())
    .addColumn('node', 'text', (c) => c.notNull())
  const counts = [
    'succeeded',
    'client_errors',
    'limited',
    'server_errors',
    'delivered',
    'delivery_failures',
    'unlogged',
  ]
  const durations = Array.from({ length: buckets }, (_, at) => `duration${at}`)
  for (const name of [...counts, ...durations]) table = table.addColumn(name, 'bigint', (c) => c.notNull())
  await table
    .addColumn('jobs_waiting', 'integer')
    .addColumn('oldest_job_ms', 'bigint')
    .addColumn('deliveries_waiting', 'integer')
    .addColumn('oldest_delivery_ms', 'bigint')
    .addColumn('loop_delay_ms', sql`double precision`, (c) => c.notNull())
    .addColumn('memory_bytes', 'bigint', (c) => c.notNull())
    .addColumn('disk_free_bytes', 'bigint')
    .addPrimaryKeyConstraint('metric_samples_key', ['at', 'node'])
    .execute()
}

async function busiest({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('traffic')
    .addColumn('period', 'text', (c) => c.notNull())
    .addColumn('kind', 'text', (c) => c.notNull())
    .addColumn('at', 'text', (c) => c.notNull())
    .addColumn('node', 'text', (c) => c.notNull())
    .addColumn('counts', 'text', (c) => c.notNull())
    .addColumn('expires_at', 'text', (c) => c.notNull())
    .execute()
  await schema.createIndex('traffic_period').on('traffic').columns(['period', 'kind', 'at']).execute()
  await schema.createIndex('traffic_expires_at').on('traffic').column('expires_at').execute()
}
