import { type Kysely, sql } from 'kysely'

/**
 * Adds endpoint queues (lanes), from which deliveries are claimed: each stores when it is due and its endpoint's
 * health.
 */
export async function lanes(db: Kysely<unknown>): Promise<void> {
  const { schema } = db
  await schema.alterTable('webhooks').addColumn('failing_told', 'text').execute()
  await schema
    .alterTable('deliveries')
    .addColumn('lane', 'text', (c) => c.notNull().defaultTo(''))
    .execute()
  await schema.alterTable('deliveries').addColumn('lease_until', 'text').execute()
  await schema
    .alterTable('deliveries')
    .addColumn('fence', 'integer', (c) => c.notNull().defaultTo(0))
    .execute()
  await schema
    .createTable('delivery_lanes')
    .addColumn('lane', 'text', (c) => c.primaryKey().notNull())
    .addColumn('due_at', 'text')
    .addColumn('failures', 'integer', (c) => c.notNull().defaultTo(0))
    .addColumn('open_until', 'text')
    .addColumn('recent', 'text', (c) => c.notNull().defaultTo('[]'))
    .execute()
  const statements = [
    sql`update deliveries set lane = coalesce(webhook_id, url)`,
    sql`insert into delivery_lanes (lane, due_at)
      select lane, min(next_attempt_at) from deliveries where status = 'pending' group by lane`,
    // These jobs formed the delivery queue before this migration; the lanes replace them.
    sql`delete from jobs where queue = 'delivery.send'`,
    sql`create index delivery_lanes_due on delivery_lanes (due_at) where due_at is not null`,
    sql`create index deliveries_waiting on deliveries (lane, next_attempt_at, id)
      where status = 'pending' and lease_until is null`,
    sql`create index deliveries_leased on deliveries (lane, lease_until) where lease_until is not null`,
    // The new index is smaller than the dropped one, and is not updated while a delivery waits.
    sql`drop index deliveries_ended`,
    sql`create index deliveries_ended on deliveries (completed_at) where completed_at is not null`,
    sql`drop index deliveries_webhook`,
    sql`create index deliveries_webhook on deliveries (webhook_id, created_at, id)`,
  ]
  for (const statement of statements) await statement.execute(db)
}
