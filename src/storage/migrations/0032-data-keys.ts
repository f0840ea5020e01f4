import type { Kysely } from 'kysely'

/**
 * Adds the table of keys that encrypt secrets. Each key has one row for each valid master key; while the master key is
 * being rotated, two master keys are valid.
 */
export async function dataKeys({ schema }: Kysely<unknown>): Promise<void> {
  await schema
    .createTable('data_keys')
    .addColumn('id', 'integer', (c) => c.notNull())
    .addColumn('generation', 'integer', (c) => c.notNull())
    .addColumn('purpose', 'text', (c) => c.notNull())
    .addColumn('fingerprint', 'text', (c) => c.notNull())
    .addColumn('wrapped', 'text', (c) => c.notNull())
    .addColumn('created_at', 'text', (c) => c.notNull())
    .addColumn('activated_at', 'text')
    .addPrimaryKeyConstraint('data_keys_key', ['id', 'generation'])
    .execute()
}
