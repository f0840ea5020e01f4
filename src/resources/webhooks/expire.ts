import { sql } from 'kysely'
import type { Database, Queryable } from '../../db/open.ts'
import { forgetOwners } from './owners.ts'

const keptMs = 30 * 86_400_000
const batch = 500

/**
 * Removes deliveries that ended more than 30 days ago with their attempts, events that have none left, and lanes that
 * nothing is known of any more. Returns how many deliveries.
 */
export async function expireDeliveries(db: Database, now: () => number): Promise<number> {
  const before = new Date(now() - keptMs).toISOString()
  const count = await inBatches(() => removeEnded(db, before))
  await inBatches(() => removeUntold(db, before))
  await db.write((tx) => forgetLanes(tx, before))
  await db.write((tx) => forgetOwners(tx, db))
  return count
}

/** Goes on as long as batches are full, each in a transaction of its own, so that nobody waits for long. */
async function inBatches(remove: () => Promise<number>): Promise<number> {
  for (let count = 0; ; ) {
    const removed = await remove()
    count += removed
    if (removed < batch) return count
  }
}

/** The condition stands twice: one that was made due again since it was found stays. */
function removeEnded({ write, engine }: Database, before: string): Promise<number> {
  const isOld = sql`completed_at is not null and completed_at <= ${before}`
  return write(async (tx) => {
    const { rows } = await sql<{ id: string }>`
      delete from deliveries where ${isOld} and id in (
        select id from deliveries where ${isOld} limit ${batch} ${engine.lockFreeRows})
      returning id`.execute(tx)
    const ids = rows.map(({ id }) => id)
    if (ids.length > 0) await tx.deleteFrom('attempts').where('deliveryId', 'in', ids).execute()
    return ids.length
  })
}

function removeUntold({ write }: Database, before: string): Promise<number> {
  return write(async (tx) => {
    const { rows } = await sql`
      delete from events where id in (
        select id from events where created_at <= ${before}
          and not exists (select 1 from deliveries where deliveries.event_id = events.id)
        order by created_at limit ${batch})
      returning id`.execute(tx)
    return rows.length
  })
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
