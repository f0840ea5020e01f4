import { type Kysely, sql } from 'kysely'

/**
 * Adds an index for every list (on its filter and order) and every sweep (on its due rows), so that the cost of a
 * request does not grow with the number of rows that a client owns.
 */
export async function boundedReads(db: Kysely<unknown>): Promise<void> {
  await deliveries(db)
  const statements = [
    sql`create index tasks_owner_status on tasks (owner_client, owner_subject, status, created_at, id)`,
    sql`create index tasks_owner_type on tasks (owner_client, owner_subject, report_type, created_at, id)`,
    sql`create index tasks_owner_type_status on tasks
      (owner_client, owner_subject, report_type, status, created_at, id)`,
    // A partial index, because most entries have no target.
    sql`create index audit_target on audit_entries (target, sequence) where target is not null`,
    sql`create index audit_event_client on audit_entries (event, client_id, sequence)`,
    sql`create index webhooks_owner on webhooks (owner_client, owner_subject, created_at, id)`,
    sql`create index webhooks_age on webhooks (created_at, id)`,
    sql`drop index clients_age`,
    sql`create index clients_age on clients (created_at, id) where revoked_at is null`,
    sql`drop index api_keys_age`,
    sql`create index api_keys_age on api_keys (created_at, id) where revoked_at is null`,
    sql`create index quota_uses_period on quota_uses (period)`,
    sql`create index version_calls_age on version_calls (last_call_at, client_id)`,
    sql`create index invitations_expires_at on invitations (expires_at)`,
  ]
  for (const statement of statements) await statement.execute(db)
}

async function deliveries(db: Kysely<unknown>): Promise<void> {
  const { schema } = db
  await schema
    .alterTable('deliveries')
    .addColumn('event_type', 'text', (c) => c.notNull().defaultTo(''))
    .execute()
  for (const table of ['deliveries', 'webhooks']) {
    await schema
      .alterTable(table)
      .addColumn('stops', 'integer', (c) => c.notNull().defaultTo(0))
      .execute()
  }
  const statements = [
    sql`update deliveries set event_type =
      coalesce((select type from events where events.id = deliveries.event_id), '')`,
    sql`create index deliveries_event on deliveries (webhook_id, event_type, created_at, id)`,
    sql`drop index deliveries_failed`,
    sql`create index deliveries_failed on deliveries (webhook_id, created_at, id) where status = 'failed'`,
    sql`create index deliveries_failed_event on deliveries (webhook_id, event_type, created_at, id)
      where status = 'failed'`,
    // Few deliveries are pending at a time; the index finds those of one type without reading rows.
    sql`create index deliveries_pending on deliveries (webhook_id, created_at, id, event_type)
      where status = 'pending'`,
  ]
  for (const statement of statements) await statement.execute(db)
}
