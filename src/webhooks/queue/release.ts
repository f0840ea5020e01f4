import { type RawBuilder, sql } from 'kysely'
import type { Database } from '../../storage/database.ts'
import { iso } from '../../storage/ids.ts'
import type { Due } from './claim.ts'
import { firstWaiting, scheduleEndpointQueues } from './endpoint-queue.ts'
import { armOwners } from './owners.ts'

type Held = Pick<Due, 'id' | 'fence'>

/**
 * Releases claims whose lease has expired, usually because their sender has exited. Returns the number of claims
 * released.
 */
export function reclaimExpired(db: Database, nowMs: number): Promise<number> {
  const lapsed = sql`lease_until is not null and lease_until <= ${iso(nowMs)}`
  return releaseWhere(db, lapsed, nowMs)
}

/** Releases the claims of all processes. Returns the number of released claims. */
export function freeDeliveries(db: Database, nowMs: number): Promise<number> {
  return releaseWhere(db, sql`lease_until is not null`, nowMs)
}

/**
 * Releases claims that this sender will not finish; outcomes of their calls are then ignored. Returns the number
 * released.
 */
export function release(db: Database, claims: readonly Held[], nowMs: number): Promise<number> {
  if (claims.length === 0) return Promise.resolve(0)
  const held = db.engine.jsonRows(JSON.stringify(claims.map(({ id, fence }) => [id, fence])))
  const ours = sql`lease_until is not null and exists (
    select 1 from ${held} where value ->> 0 = deliveries.id and cast(value ->> 1 as integer) = fence)`
  return releaseWhere(db, ours, nowMs)
}

async function releaseWhere(db: Database, which: RawBuilder<unknown>, nowMs: number): Promise<number> {
  return db.write(async (tx) => {
    const { rows } = await sql<{ lane: string }>`
      update deliveries set lease_until = null, fence = fence + 1 where id in (
        select id from deliveries where ${which} ${db.engine.lockFreeRows}) returning lane`.execute(tx)
    await scheduleEndpointQueues(tx, db, new Map(rows.map(({ lane }) => [lane, iso(nowMs)])))
    return rows.length
  })
}

/**
 * Postpones a delivery and its whole queue, because an internal error prevented the call. This does not count as an
 * attempt. Changes nothing if this sender has lost the claim.
 */
export async function postpone(
  db: Database,
  { id, fence, lane }: Held & { lane: string },
  untilMs: number,
): Promise<void> {
  const until = iso(untilMs)
  await db.write(async (tx) => {
    const held = tx.updateTable('deliveries').where('id', '=', id).where('fence', '=', fence)
    const { numUpdatedRows } = await held
      .where('leaseUntil', 'is not', null)
      .set({ leaseUntil: null, nextAttemptAt: until })
      .executeTakeFirst()
    if (numUpdatedRows === 0n) return
    const waiting = sql<string | null>`case when ${firstWaiting} is null then null else ${until} end`
    const postponed = tx.updateTable('deliveryLanes').set({ dueAt: waiting }).where('lane', '=', lane)
    await armOwners(tx, db, await postponed.returning(['owner', 'rank', 'dueAt']).execute())
  })
}
