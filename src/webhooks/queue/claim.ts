import { sql } from 'kysely'
import type { Database, Queryable } from '../../storage/database.ts'
import { iso } from '../../storage/ids.ts'
import { type Called, registrationsOf } from '../dispatch/called.ts'
import { type Chosen, choose, dueLanes, wantedBy } from './due-lanes.ts'
import { type EndpointLimits, firstWaiting, grant, shortLimitMs } from './endpoint-queue.ts'
import { dueOwners, settleOwners } from './owners.ts'
import { type Held, type Rank, ranks, roomFor, type Slots, share } from './shares.ts'

/** A claimed delivery with all that its call needs. */
export interface Due extends Held {
  id: string
  /** The fencing token of this claim. */
  fence: number
  lane: string
  eventId: string
  webhookId: string | null
  /** Where its registration is now; what the row says, where there is none. */
  url: string
  body: string
  attempts: number
  /** Grows with each redelivery. */
  round: number
  /** The tries of earlier rounds. */
  triesBefore: number
  /** 1 for a test: tried once, whether its registration is active or not. */
  isTest: number
  /** How often its registration had been stopped when it was made due. */
  stops: number
  type: string
  /** Of the registration; of the request, where the address came with one. */
  ownerClient: string
  ownerSubject: string
  /** How long its call may take in ms, where that is less than usual. */
  limitMs: number | null
  /** The registration as it was when claimed; null when it or its owner is gone, or there was none. */
  webhook: Called | null
}

export interface ClaimOptions {
  db: Database
  limits: EndpointLimits
  /** How long a sender has a delivery before another may claim it. */
  leaseMs: number
  /** The sending slots of this process: how many are free, and how many each owner holds. */
  slots: Slots
}

/**
 * True when its registration was paused or disabled since it was made due, or deleted, or its owner; a test may begin while
 * it is paused.
 */
export const isStopped = ({ webhookId, webhook, isTest, stops }: Due): boolean => {
  if (webhookId === null) return false
  if (webhook === null || stops < webhook.stops) return true
  return isTest !== 1 && webhook.status !== 'active'
}

/**
 * Claims due deliveries, as many as there are free slots, a few of each endpoint: those of endpoints that answer first, and
 * of each owner no more than its share. What a slow or dead endpoint, or an owner whose share is taken, has waiting is not
 * even looked at.
 */
export function claimDue({ db, limits, leaseMs, slots }: ClaimOptions, nowMs: number): Promise<Due[]> {
  return db.write(async (tx) => {
    const chosen: Chosen[] = []
    const looked: { owner: string; rank: Rank }[] = []
    let left = slots
    for (const rank of ranks) {
      const most = roomFor(left, rank)
      if (most === 0) continue
      const owners = await dueOwners(tx, db, left, { rank, most, nowMs })
      if (owners.length === 0) continue
      looked.push(...owners.map((owner) => ({ owner, rank })))
      const lanes = await dueLanes(tx, db, { owners, rank, each: Math.ceil(most / owners.length), limits, nowMs })
      const shared = share(
        left,
        rank,
        wantedBy(lanes, (lane) => grant(lane, nowMs, limits, leaseMs).count),
      )
      left = shared.left
      chosen.push(...choose(lanes, shared.granted, (lane) => grant(lane, nowMs, limits, leaseMs)))
    }
    const claimed = await lease(tx, db, chosen, limits, iso(nowMs + leaseMs))
    await arm(tx, db, armed(chosen, claimed, nowMs))
    await settleOwners(tx, db, looked, nowMs)
    return claimed
  })
}

/** When each lane is looked at next. Where others hold what was admitted, that is soon, and counts as not begun. */
function armed(admitted: readonly Chosen[], claimed: readonly Due[], nowMs: number) {
  const leased = Map.groupBy(claimed, ({ lane }) => lane)
  return admitted.map(({ lane, count, floorMs, recent }) => {
    const missed = count - (leased.get(lane)?.length ?? 0)
    const begun = missed === 0 ? recent : recent.slice(0, -missed)
    return [lane, iso(missed === 0 ? floorMs : nowMs), JSON.stringify(begun)]
  })
}

async function lease(
  tx: Queryable,
  { engine }: Database,
  chosen: readonly Chosen[],
  limits: EndpointLimits,
  leaseUntil: string,
): Promise<Due[]> {
  const ids = chosen.flatMap((lane) => lane.ids.map((id) => [id]))
  if (ids.length === 0) return []
  const wanted = sql`select value ->> 0 from ${engine.jsonRows(JSON.stringify(ids))}`
  // Whoever ends a registration holds its deliveries for a moment: those are passed over. Found by their ids, and not by
  // an index of states: hence the negation.
  const { rows } = await sql<Omit<Due, 'webhook' | 'limitMs' | keyof Held>>`
    update deliveries set lease_until = ${leaseUntil}, fence = fence + 1 where id in (
      select id from deliveries where id in (${wanted}) and not (status <> 'pending') and lease_until is null
      ${engine.lockFreeRows})
    returning id, fence, lane, event_id as "eventId", webhook_id as "webhookId", url, body, attempts, round,
      tries_before as "triesBefore", is_test as "isTest", stops, owner_client as "ownerClient", owner_subject as "ownerSubject",
      (select type from events where events.id = deliveries.event_id) as type`.execute(tx.withoutPlugins())
  const webhooks = await registrationsOf(tx, { engine }, rows)
  const lanes = new Map(chosen.map((lane) => [lane.lane, lane]))
  return rows.map((row) => {
    const webhook = webhooks.get(row.id) ?? null
    const { owner, rank, failures } = lanes.get(row.lane) as Chosen
    const limitMs = shortLimitMs({ failures }, limits)
    return { ...row, owner, rank, limitMs, url: webhook?.callbackUrl ?? row.url, webhook }
  })
}

/** Sets when lanes are looked at next: when their first waiting delivery is due, but not before the given instant. */
async function arm(tx: Queryable, { engine }: Database, rows: string[][]): Promise<void> {
  if (rows.length === 0) return
  await sql`
    update delivery_lanes set recent = a.recent, due_at = case when ${firstWaiting} < a.floor then a.floor
      else ${firstWaiting} end
    from (select value ->> 0 as lane, value ->> 1 as floor, value ->> 2 as recent
      from ${engine.jsonRows(JSON.stringify(rows))}) as a where a.lane = delivery_lanes.lane`.execute(tx)
}
