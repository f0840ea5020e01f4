import { type Kysely, sql } from 'kysely'
import type { Engine } from '../engine.ts'

/**
 * Adds the table of archived months of the audit log. From then on, entries can be deleted once the archive of their
 * month is recorded; other deletes and all updates are still rejected.
 */
export async function auditArchives(db: Kysely<unknown>, engine: Engine): Promise<void> {
  await db.schema
    .createTable('audit_archives')
    .addColumn('month', 'text', (c) => c.primaryKey().notNull())
    .addColumn('key', 'text', (c) => c.notNull())
    .addColumn('first_sequence', 'bigint', (c) => c.notNull().unique())
    .addColumn('last_sequence', 'bigint', (c) => c.notNull().unique())
    .addColumn('previous_hash', 'text', (c) => c.notNull())
    .addColumn('last_hash', 'text', (c) => c.notNull())
    .addColumn('size_bytes', 'bigint', (c) => c.notNull())
    .addColumn('sha256', 'text', (c) => c.notNull())
    .addColumn('archived_at', 'text', (c) => c.notNull())
    .addColumn('digest', 'text', (c) => c.notNull())
    .execute()
  await db.schema.alterTable('audit_head').addColumn('archiving_until', 'text').execute()
  const archived = 'coalesce((select max(last_sequence) from audit_archives), 0)'
  const statements = [
    ...engine.appendOnly('audit_archives'),
    ...engine.deletableUpTo('audit_entries', 'sequence', archived),
  ]
  for (const statement of statements) await sql.raw(statement).execute(db)
}
