import { type Kysely, sql } from 'kysely'
import type { Engine } from '../engine.ts'

/** Adds counters shared by all processes: requests in short windows, which a crash may lose, and monthly usage. */
export async function limits(db: Kysely<unknown>, { unlogged }: Engine): Promise<void> {
  const { schema } = db
  await schema
    .createTable('limit_windows')
    .addColumn('key', 'varchar(255)', (c) => c.primaryKey().notNull())
    .addColumn('points', 'integer', (c) => c.notNull().defaultTo(0))
    .addColumn('expire', 'bigint')
    .execute()
  for (const statement of unlogged('limit_windows')) await sql.raw(statement).execute(db)
  await schema.createIndex('limit_windows_expire').on('limit_windows').column('expire').execute()
  await schema
    .createTable('quota_uses')
    .addColumn('key', 'text', (c) => c.notNull())
    .addColumn('period', 'text', (c) => c.notNull())
    .addColumn('used', 'bigint', (c) => c.notNull())
    .addColumn('granted', 'integer', (c) => c.notNull())
    .addPrimaryKeyConstraint('quota_uses_key', ['key', 'period'])
    .execute()
}
