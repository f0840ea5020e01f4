import type { Kysely } from 'kysely'

/** Adds the table of scheduled backup runs. Each scheduled time has one row, which one node claims. */
export async function backups({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('backups')
    .addColumn('scheduled_for', 'text', (c) => c.primaryKey().notNull())
    .addColumn('status', 'text', (c) => c.notNull())
    .addColumn('node', 'text', (c) => c.notNull())
    .addColumn('attempts', 'integer', (c) => c.notNull())
    .addColumn('started_at', 'text', (c) => c.notNull())
    .addColumn('lease_until', 'text', (c) => c.notNull())
    .addColumn('finished_at', 'text')
    .addColumn('name', 'text')
    .addColumn('size_bytes', 'bigint')
    .addColumn('error', 'text')
    .execute()
}
