import { type Kysely, sql } from 'kysely'

/**
 * Adds columns for secret rotation, redelivery, replay, test deliveries, and excluding a webhook from an event, and an
 * index of failed deliveries.
 */
export async function webhookOperations(db: Kysely<unknown>): Promise<void> {
  const { schema } = db
  for (const table of ['webhooks', 'account_secrets']) {
    for (const column of ['previous_secret_sealed', 'previous_secret_expires_at']) {
      await schema.alterTable(table).addColumn(column, 'text').execute()
    }
  }
  await schema.alterTable('events').addColumn('except_webhook', 'text').execute()
  for (const column of ['round', 'tries_before', 'is_test']) {
    await schema
      .alterTable('deliveries')
      .addColumn(column, 'integer', (c) => c.notNull().defaultTo(0))
      .execute()
  }
  await sql`create index deliveries_failed on deliveries (webhook_id, created_at) where status = 'failed'`.execute(db)
}
