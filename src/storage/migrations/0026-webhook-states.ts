import { type Kysely, sql } from 'kysely'

/** Adds the index that the metrics use to count webhooks by state. */
export async function webhookStates(db: Kysely<unknown>): Promise<void> {
  await sql`create index webhooks_state on webhooks (status, failing_since)`.execute(db)
}
