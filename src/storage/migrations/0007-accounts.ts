import type { ColumnDefinitionBuilder, Kysely } from 'kysely'
import type { Engine } from '../engine.ts'

/**
 * Creates the tables for login accounts. Deleting a user also deletes the account, invitation, consents and
 * authorization server records.
 */
export async function accounts(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const ofUser = (column: ColumnDefinitionBuilder) => column.references('users.id').onDelete('cascade')
  await db.schema
    .createTable('accounts')
    .addColumn('user_id', engine.identityType, (c) => ofUser(c.primaryKey().notNull()))
    .addColumn('role', 'text', (c) => c.notNull())
    .addColumn('password_hash', 'text')
    .addColumn('password_changed_at', 'text')
    .addColumn('created_at', 'text', (c) => c.notNull())
    .execute()
  await db.schema
    .createTable('invitations')
    .addColumn('user_id', engine.identityType, (c) => ofUser(c.primaryKey().notNull()))
    .addColumn('token_hash', 'text', (c) => c.notNull().unique())
    .addColumn('expires_at', 'text', (c) => c.notNull())
    .execute()
  await db.schema
    .createTable('consents')
    .addColumn('user_id', engine.identityType, (c) => ofUser(c.notNull()))
    .addColumn('client_id', 'text', (c) => c.notNull())
    .addColumn('scopes', 'text', (c) => c.notNull())
    .addColumn('updated_at', 'text', (c) => c.notNull())
    .addPrimaryKeyConstraint('consents_key', ['user_id', 'client_id'])
    .execute()
  await db.schema
    .createTable('login_tries')
    .addColumn('key', 'text', (c) => c.primaryKey().notNull())
    .addColumn('count', 'integer', (c) => c.notNull())
    .addColumn('ends_at', 'text', (c) => c.notNull())
    .addColumn('blocked_until', 'text')
    .execute()
  await db.schema.createIndex('login_tries_ends_at').on('login_tries').column('ends_at').execute()
  await extendClientsAndRecords(db, ofUser)
}

async function extendClientsAndRecords(
  db: Kysely<unknown>,
  ofUser: (column: ColumnDefinitionBuilder) => ColumnDefinitionBuilder,
): Promise<void> {
  const flag = (column: ColumnDefinitionBuilder) => column.notNull().defaultTo(0)
  await db.schema.alterTable('clients').addColumn('first_party', 'integer', flag).execute()
  await db.schema.alterTable('clients').addColumn('trusted', 'integer', flag).execute()
  await db.schema
    .alterTable('clients')
    .addColumn('post_logout_redirect_uris', 'text', (c) => c.notNull().defaultTo(''))
    .execute()
  await db.schema.alterTable('auth_records').addColumn('user_id', 'integer', ofUser).execute()
  await db.schema.createIndex('auth_records_user_id').on('auth_records').column('user_id').execute()
}
