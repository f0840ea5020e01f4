import { sql } from 'kysely'
import type { Database, Queryable } from '../../db/open.ts'

const keptMs = 30 * 86_400_000
const batch = 500

/**
 * Removes deliveries that ended more than 30 days ago with their attempts, events that have none left, and lanes that
 * nothing is known of any more. Returns how many deliveries.
 */
export async function expireDeliveries(db: Database, now: () => number): Promise<number> {
  const before = new Date(now() - keptMs).toISOString()
  const old = await db.read
    .selectFrom('deliveries')
    .select('id')
    .where('completedAt', 'is not', null)
    .where('completedAt', '<=', before)
    .limit(batch)
    .execute()
  const ids = old.map(({ id }) => id)
  await db.write(async (tx) => {
    if (ids.length > 0) {
      await tx.deleteFrom('attempts').where('deliveryId', 'in', ids).execute()
      await tx.deleteFrom('deliveries').where('id', 'in', ids).execute()
    }
    const told = tx.selectFrom('deliveries').select('eventId')
    await tx.deleteFrom('events').where('createdAt', '<=', before).where('id', 'not in', told).execute()
    await forgetLanes(tx, before)
  })
  return ids.length
}

/** A registration's lane counts its failures as long as it is there; others are of use while something waits or is sent. */
async function forgetLanes(tx: Queryable, before: string): Promise<void> {
  await sql`
    delete from delivery_lanes where due_at is null and (open_until is null or open_until <= ${before})
      and not exists (select 1 from webhooks where webhooks.id = delivery_lanes.lane)
      and not exists (select 1 from deliveries as d where d.lane = delivery_lanes.lane and d.lease_until is not null)
      and not exists (select 1 from deliveries as d
        where d.lane = delivery_lanes.lane and d.status = 'pending' and d.lease_until is null)`.execute(tx)
}
