import type { Kysely } from 'kysely'
import type { Engine } from '../engine.ts'

/** Creates the tables for jobs in the embedded queue and for report tasks. */
export async function tasks(db: Kysely<unknown>, engine: Engine): Promise<void> {
  await db.schema
    .createTable('jobs')
    .addColumn('id', engine.identityType, engine.identity)
    .addColumn('queue', 'text', (c) => c.notNull())
    .addColumn('payload', 'text', (c) => c.notNull())
    .addColumn('run_at', 'text', (c) => c.notNull())
    .addColumn('lease_until', 'text')
    .addColumn('fence', 'integer', (c) => c.notNull().defaultTo(0))
    .addColumn('attempts', 'integer', (c) => c.notNull().defaultTo(0))
    .execute()
  await db.schema.createIndex('jobs_due').on('jobs').columns(['queue', 'lease_until', 'run_at', 'id']).execute()
  await taskRecords(db)
}

async function taskRecords(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('tasks')
    .addColumn('id', 'text', (c) => c.primaryKey().notNull())
    .addColumn('owner_client', 'text', (c) => c.notNull())
    .addColumn('owner_subject', 'text', (c) => c.notNull())
    .addColumn('report_type', 'text', (c) => c.notNull())
    .addColumn('format', 'text', (c) => c.notNull())
    .addColumn('parameters', 'text')
    .addColumn('webhook_url', 'text')
    .addColumn('status', 'text', (c) => c.notNull())
    .addColumn('progress', 'integer', (c) => c.notNull())
    .addColumn('attempts', 'integer', (c) => c.notNull())
    .addColumn('row_count', 'integer')
    .addColumn('size_bytes', 'bigint')
    .addColumn('sha256', 'text')
    .addColumn('result_key', 'text')
    .addColumn('error_code', 'text')
    .addColumn('error_message', 'text')
    .addColumn('version_prefix', 'text', (c) => c.notNull())
    .addColumn('revision', 'integer', (c) => c.notNull())
    .addColumn('created_at', 'text', (c) => c.notNull())
    .addColumn('updated_at', 'text', (c) => c.notNull())
    .addColumn('started_at', 'text')
    .addColumn('completed_at', 'text')
    .addColumn('expires_at', 'text')
    .execute()
  const index = (name: string, columns: string[]) => db.schema.createIndex(name).on('tasks').columns(columns).execute()
  await index('tasks_owner', ['owner_client', 'owner_subject', 'created_at', 'id'])
  await index('tasks_expiring', ['result_key', 'expires_at'])
  await index('tasks_ended', ['status', 'completed_at'])
}
