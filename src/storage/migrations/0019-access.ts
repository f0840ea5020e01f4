import { type Kysely, sql } from 'kysely'

/**
 * Adds a column that says whether a client may introspect other clients' tokens (existing clients may not), and an
 * index of administrators who can log in.
 */
export async function access(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable('clients')
    .addColumn('introspects_others', 'integer', (column) => column.notNull().defaultTo(0))
    .execute()
  await sql`
    create index accounts_administrators on accounts (role, user_id)
    where role = 'admin' and password_hash is not null`.execute(db)
}
