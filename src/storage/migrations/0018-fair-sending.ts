import { type Kysely, sql } from 'kysely'

/**
 * Adds fair sharing of sending slots between owners. Each endpoint queue (lane) has an owner and a rank; each owner
 * with waiting deliveries has one row per rank, with the time when the first lane is due. Also counts dropped
 * deliveries by owner.
 */
export async function fairSending(db: Kysely<unknown>): Promise<void> {
  const { schema } = db
  await schema
    .alterTable('delivery_lanes')
    .addColumn('owner', 'text', (c) => c.notNull().defaultTo(''))
    .execute()
  await schema
    .alterTable('delivery_lanes')
    .addColumn('rank', 'integer', (c) => c.notNull().defaultTo(1))
    .execute()
  await schema
    .createTable('delivery_owners')
    .addColumn('owner', 'text', (c) => c.notNull())
    .addColumn('rank', 'integer', (c) => c.notNull())
    .addColumn('due_at', 'text')
    .addPrimaryKeyConstraint('delivery_owners_key', ['owner', 'rank'])
    .execute()
  await schema.alterTable('deliveries').addColumn('reason', 'text').execute()
  await schema
    .createTable('delivery_drops')
    .addColumn('owner', 'text', (c) => c.primaryKey().notNull())
    .addColumn('total', 'integer', (c) => c.notNull())
    .addColumn('unreported', 'integer', (c) => c.notNull())
    .addColumn('since', 'text', (c) => c.notNull())
    .addColumn('reported_at', 'text')
    .execute()
  const statements = [
    // Existing endpoints get rank 2 if they are failing, otherwise rank 0.
    sql`update delivery_lanes set rank = case when failures > 0 then 2 else 0 end, owner = coalesce((
      select case when webhook_id is null then owner_client else owner_client || ' ' || owner_subject end
      from deliveries where deliveries.lane = delivery_lanes.lane and status = 'pending' order by next_attempt_at, id limit 1), '')`,
    sql`insert into delivery_owners (owner, rank, due_at)
      select owner, rank, min(due_at) from delivery_lanes where due_at is not null group by owner, rank`,
    sql`create index delivery_owners_due on delivery_owners (rank, due_at) where due_at is not null`,
    sql`create index delivery_lanes_owner on delivery_lanes (owner, rank, due_at) where due_at is not null`,
  ]
  for (const statement of statements) await statement.execute(db)
}
