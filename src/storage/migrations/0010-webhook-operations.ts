import { type Kysely, sql } from 'kysely'

/** Rotated secrets, redelivery and replay, test deliveries of a webhook, and events that one webhook does not receive. */
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
  // For finding failed deliveries; deliveries that succeed at the first attempt never enter it.
  await sql`create index deliveries_failed on deliveries (webhook_id, created_at) where status = 'failed'`.execute(db)
}
