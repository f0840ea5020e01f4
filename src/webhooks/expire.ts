import { sql } from 'kysely'
import type { Database, Queryable } from '../storage/database.ts'
import { inSteps, maxSwept } from '../storage/sweep.ts'
import { removeIdleOwners } from './queue/owners.ts'

const retentionMs = 30 * 86_400_000

/**
 * Deletes, in small batches, deliveries that ended more than 30 days ago (with their attempts), events of that age that
 * have no deliveries, unused endpoint queues, and idle owners. Returns the number of deliveries deleted.
 */
export async function expireDeliveries(db: Database, now: () => number): Promise<number> {
  const before = new Date(now() - retentionMs).toISOString()
  const count = await inSteps(db, (tx) => removeEnded(tx, db, before), 1)
  for (let position: Position | null = { at: '', id: '' }; position !== null; )
    position = await removeUndelivered(db, before, position)
  for (let lane: string | null = ''; lane !== null; ) lane = await removeIdleQueues(db, before, lane)
  await db.write((tx) => removeIdleOwners(tx, db))
  return count
}

/** Maximum number of deliveries and attempts deleted in one transaction; a single delivery may exceed it. */
const maxWithAttempts = 300

/**
 * Deletes the next few old deliveries; returns their number. The DELETE repeats the condition, so that it skips
 * deliveries that were made due again after the SELECT.
 */
async function removeEnded(tx: Queryable, { engine }: Database, before: string): Promise<number> {
  const isOld = sql`completed_at is not null and completed_at <= ${before}`
  const { rows: old } = await sql<{ id: string; attempts: number }>`
    select id, attempts from deliveries where ${isOld} limit ${maxSwept} ${engine.lockFreeRows}`.execute(tx)
  let total = 0
  const few = old.filter(({ attempts }, at) => {
    total += 1 + attempts
    return at === 0 || total <= maxWithAttempts
  })
  if (few.length === 0) return 0
  const { rows } = await sql<{ id: string }>`
    delete from deliveries where ${isOld} and id in (${sql.join(few.map(({ id }) => id))}) returning id`.execute(tx)
  const ids = rows.map(({ id }) => id)
  if (ids.length > 0) await tx.deleteFrom('attempts').where('deliveryId', 'in', ids).execute()
  return ids.length
}

/** A position in the index `events_age`. */
interface Position {
  at: string
  id: string
}

/**
 * Checks the next few old events and deletes those with no deliveries. Returns the position of the last one, or null at
 * the end.
 */
function removeUndelivered({ write }: Database, before: string, after: Position): Promise<Position | null> {
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
    const undelivered = tx
      .deleteFrom('events')
      .where((row) =>
        row.not(
          row.exists(
            row.selectFrom('deliveries').select('deliveries.id').whereRef('deliveries.eventId', '=', 'events.id'),
          ),
        ),
      )
    const ids = old.map(({ id }) => id)
    await undelivered.where('id', 'in', ids).execute()
    return old[maxSwept - 1] ?? null
  })
}

/**
 * Checks the next few endpoint queues and deletes those with no webhook, no pending delivery and no recently opened
 * circuit breaker; a webhook's queue counts failures for as long as the webhook exists. Returns the last queue's name,
 * or null at the end.
 */
function removeIdleQueues({ write }: Database, before: string, after: string): Promise<string | null> {
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
