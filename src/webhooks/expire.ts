import { sql } from 'kysely'
import type { Database, Queryable } from '../storage/database.ts'
import { inSteps, maxSwept } from '../storage/sweep.ts'
import { forgetOwners } from './queue/owners.ts'

const keptMs = 30 * 86_400_000

/**
 * Removes deliveries that ended more than 30 days ago with their attempts, events without deliveries, and unused endpoint
 * queues, a few per transaction. Returns how many deliveries.
 */
export async function expireDeliveries(db: Database, now: () => number): Promise<number> {
  const before = new Date(now() - keptMs).toISOString()
  const count = await inSteps(db, (tx) => removeEnded(tx, db, before))
  for (let place: Place | null = { at: '', id: '' }; place !== null; ) place = await removeUntold(db, before, place)
  for (let lane: string | null = ''; lane !== null; ) lane = await forgetLanes(db, before, lane)
  await db.write((tx) => forgetOwners(tx, db))
  return count
}

/** The condition is repeated in the DELETE: a delivery made due again since it was found stays. */
async function removeEnded(tx: Queryable, { engine }: Database, before: string): Promise<number> {
  const isOld = sql`completed_at is not null and completed_at <= ${before}`
  const { rows } = await sql<{ id: string }>`
    delete from deliveries where ${isOld} and id in (
      select id from deliveries where ${isOld} limit ${maxSwept} ${engine.lockFreeRows})
    returning id`.execute(tx)
  const ids = rows.map(({ id }) => id)
  if (ids.length > 0) await tx.deleteFrom('attempts').where('deliveryId', 'in', ids).execute()
  return ids.length
}

/** A position in the index `events_age`. */
interface Place {
  at: string
  id: string
}

/** Removes those of the next few old events that have no delivery; returns the position of the last, or null at the end. */
function removeUntold({ write }: Database, before: string, after: Place): Promise<Place | null> {
  return write(async (tx) => {
    const old = await tx
      .selectFrom('events')
      .select(['id', 'createdAt as at'])
      .where(sql<boolean>`(created_at, id) > (${after.at}, ${after.id})`)
      .where('createdAt', '<=', before)
      .orderBy('createdAt')
      .orderBy('id')
      .limit(maxSwept)
      .execute()
    if (old.length === 0) return null
    const untold = tx
      .deleteFrom('events')
      .where((row) =>
        row.not(
          row.exists(
            row.selectFrom('deliveries').select('deliveries.id').whereRef('deliveries.eventId', '=', 'events.id'),
          ),
        ),
      )
    const ids = old.map(({ id }) => id)
    await untold.where('id', 'in', ids).execute()
    return old[maxSwept - 1] ?? null
  })
}

/**
 * Removes those of the next few endpoint queues that have no waiting delivery and no webhook: a webhook's queue counts its
 * failures for as long as the webhook exists. Returns the last one's name, or null at the end.
 */
function forgetLanes({ write }: Database, before: string, after: string): Promise<string | null> {
  return write(async (tx) => {
    const lanes = await tx
      .selectFrom('deliveryLanes')
      .select('lane')
      .where('lane', '>', after)
      .orderBy('lane')
      .limit(maxSwept)
      .execute()
    const [first, last] = [lanes[0]?.lane, lanes.at(-1)?.lane]
    if (first === undefined || last === undefined) return null
    await sql`
      delete from delivery_lanes where lane between ${first} and ${last}
        and due_at is null and (open_until is null or open_until <= ${before})
        and not exists (select 1 from webhooks where webhooks.id = delivery_lanes.lane)
        and not exists (select 1 from deliveries as d where d.lane = delivery_lanes.lane and d.lease_until is not null)
        and not exists (select 1 from deliveries as d
          where d.lane = delivery_lanes.lane and d.status = 'pending' and d.lease_until is null)`.execute(tx)
    return lanes.length < maxSwept ? null : last
  })
}
