import type { Kysely } from 'kysely'
import type { Engine } from '../engine.ts'

/** Creates the tables of declared jobs and of the schedules that start them. */
export async function declaredJobs({ schema }: Kysely<unknown>, { keyType }: Engine): Promise<void> {
  await schema
    .createTable('declared_jobs')
    .addColumn('id', keyType as never, (c) => c.primaryKey().notNull())
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('input', 'text', (c) => c.notNull())
    .addColumn('key', 'text')
    .addColumn('waiting_key', 'text')
    .addColumn('status', 'text', (c) => c.notNull())
    .addColumn('due_at', 'text', (c) => c.notNull())
    .addColumn('queued', 'integer', (c) => c.notNull())
    .addColumn('turn', 'integer', (c) => c.notNull().defaultTo(1))
    .addColumn('attempts', 'integer', (c) => c.notNull().defaultTo(0))
    .addColumn('failures', 'integer', (c) => c.notNull().defaultTo(0))
    .addColumn('interruptions', 'integer', (c) => c.notNull().defaultTo(0))
    .addColumn('error', 'text')
    .addColumn('scheduled_for', 'text')
    .addColumn('trace', 'text')
    .addColumn('created_at', 'text', (c) => c.notNull())
    .addColumn('started_at', 'text')
    .addColumn('ended_at', 'text')
    .execute()
  const index = (name: string, columns: string[]) => schema.createIndex(name).on('declared_jobs').columns(columns)
  await index('declared_jobs_waiting_key', ['name', 'waiting_key']).unique().execute()
  await index('declared_jobs_due', ['status', 'queued', 'due_at']).execute()
  await index('declared_jobs_status', ['status', 'id']).execute()
  await index('declared_jobs_name', ['name', 'id']).execute()
  await index('declared_jobs_ended', ['ended_at']).execute()
  await schema
    .createTable('job_schedules')
    .addColumn('name', 'text', (c) => c.primaryKey().notNull())
    .addColumn('timing', 'text', (c) => c.notNull())
    .addColumn('next_at', 'text', (c) => c.notNull())
    .addColumn('last_at', 'text')
    .addColumn('last_job_id', 'text')
    .execute()
}
