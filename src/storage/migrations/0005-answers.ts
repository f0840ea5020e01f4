import type { Kysely } from 'kysely'

/**
 * Creates the table for responses to requests with an Idempotency-Key, which are replayed when a request is repeated.
 */
export async function answers(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('answers')
    .addColumn('id', 'text', (c) => c.primaryKey().notNull())
    .addColumn('digest', 'text', (c) => c.notNull())
    .addColumn('sealed', 'text', (c) => c.notNull())
    .addColumn('created_at', 'text', (c) => c.notNull())
    .execute()
  await db.schema.createIndex('answers_age').on('answers').columns(['created_at']).execute()
}
