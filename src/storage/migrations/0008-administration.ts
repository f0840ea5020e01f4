import { type Kysely, sql } from 'kysely'
import type { Engine } from '../engine.ts'

/** Adds API keys, revisions of clients, signing-key rotation and the audit log. */
export async function administration(db: Kysely<unknown>, engine: Engine): Promise<void> {
  await apiKeys(db, engine)
  await clients(db)
  await db.schema.alterTable('signing_keys').addColumn('active_from', 'text').execute()
  await sql`update signing_keys set active_from = created_at`.execute(db)
  await audit(db, engine)
}

async function clients(db: Kysely<unknown>): Promise<void> {
  const add = (name: string, type: 'text' | 'integer', fallback: string | number) =>
    db.schema
      .alterTable('clients')
      .addColumn(name, type, (c) => c.notNull().defaultTo(fallback))
      .execute()
  await add('revision', 'integer', 1)
  await add('updated_at', 'text', '')
  await sql`update clients set updated_at = created_at`.execute(db)
  await db.schema.createIndex('clients_age').on('clients').columns(['created_at', 'id']).execute()
}

async function apiKeys(db: Kysely<unknown>, engine: Engine): Promise<void> {
  await db.schema
    .createTable('api_keys')
    .addColumn('id', 'text', (c) => c.primaryKey().notNull())
    .addColumn('name', 'text', (c) => c.notNull())
    .addColumn('key_hash', engine.keyType, (c) => c.notNull().unique())
    .addColumn('hint', 'text', (c) => c.notNull())
    .addColumn('rate', 'text')
    .addColumn('quota', 'integer')
    .addColumn('expires_at', 'text')
    .addColumn('last_used_at', 'text')
    .addColumn('revoked_at', 'text')
    .addColumn('revision', 'integer', (c) => c.notNull())
    .addColumn('created_at', 'text', (c) => c.notNull())
    .addColumn('updated_at', 'text', (c) => c.notNull())
    .execute()
  await db.schema.createIndex('api_keys_age').on('api_keys').columns(['created_at', 'id']).execute()
}

/**
 * Audit entries are append-only. The single row of `audit_head` stores the sequence number and hash of the latest
 * entry; locking it puts entries in order.
 */
async function audit(db: Kysely<unknown>, engine: Engine): Promise<void> {
  await db.schema
    .createTable('audit_entries')
    .addColumn('sequence', 'bigint', (c) => c.primaryKey().notNull())
    .addColumn('at', 'text', (c) => c.notNull())
    .addColumn('event', 'text', (c) => c.notNull())
    .addColumn('client_id', 'text')
    .addColumn('subject', 'text')
    .addColumn('target', 'text')
    .addColumn('address', 'text')
    .addColumn('request_id', 'text')
    .addColumn('details', 'text')
    .addColumn('hash', 'text', (c) => c.notNull())
    .execute()
  for (const column of ['event', 'client_id', 'subject', 'at']) {
    await db.schema.createIndex(`audit_${column}`).on('audit_entries').columns([column, 'sequence']).execute()
  }
  await db.schema
    .createTable('audit_head')
    .addColumn('id', 'integer', (c) => c.primaryKey().notNull())
    .addColumn('sequence', 'bigint', (c) => c.notNull())
    .addColumn('hash', 'text', (c) => c.notNull())
    .execute()
  await sql`insert into audit_head (id, sequence, hash) values (1, 0, '')`.execute(db)
  for (const statement of engine.appendOnly('audit_entries')) await sql.raw(statement).execute(db)
}
