import { type Kysely, sql } from 'kysely'

/** Rotated secrets, redelivery and replay, tests of one registration, and events that one registration is not told. */
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
  // What is looked for when something went wrong; deliveries that succeed at once never enter it.
  await sql`create index deliveries_failed on deliveries (webhook_id, created_at) where status = 'failed'`.execute(db)
}
