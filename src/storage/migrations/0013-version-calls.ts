import type { Kysely } from 'kysely'

/** Creates the table that counts calls to deprecated API versions by client. */
export async function versionCalls(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('version_calls')
    .addColumn('version', 'text', (c) => c.notNull())
    .addColumn('client_id', 'text', (c) => c.notNull())
    .addColumn('calls', 'bigint', (c) => c.notNull())
    .addColumn('last_call_at', 'text', (c) => c.notNull())
    .addPrimaryKeyConstraint('version_calls_key', ['version', 'client_id'])
    .execute()
}
