import { sql } from 'kysely'
import type { Database, Queryable } from '../../storage/database.ts'
import { iso } from '../../storage/ids.ts'
import { type CallableWebhook, webhooksToCall } from '../dispatch/called.ts'
import { type Chosen, choose, dueQueues, wantedBy } from './due-queues.ts'
import { type EndpointLimits, firstWaiting, grant, shortLimitMs } from './endpoint-queue.ts'
import { dueOwners, settleOwners } from './owners.ts'
import { type Held, type Rank, ranks, roomFor, type Slots, share } from './shares.ts'

/** A claimed delivery with everything needed to make the call. */
export interface Due extends Held {
  id: string
  /** This claim's fencing token. */
  fence: number
  lane: string
  eventId: string
  webhookId: string | null
  /** The webhook's current address; without a webhook, the address stored with the delivery. */
  url: string
  body: string
  attempts: number
  /** Incremented by each redelivery. */
  round: number
  /** Number of attempts in earlier rounds. */
  triesBefore: number
  /** 1 for a test, which gets a single attempt even if the webhook is paused or disabled; otherwise 0. */
  isTest: number
  /** The number of times that the webhook had been paused or disabled when the delivery was made due. */
  stops: number
  type: string
  /**
   * The trace context of the event. Lacks `tracestate` if the webhook belongs to another client, because `tracestate`
   * is meant only for the client that sent it.
   */
  trace: string | null
  /** The webhook's owner; for one-off callback URLs, the event's owner. */
  ownerClient: string
  ownerSubject: string
  /** The call's time limit in ms; null for the default. */
  limitMs: number | null
  /**
   * The webhook at the time of the claim. Null for a one-off callback URL, if the webhook or its owner was deleted, or
   * if the webhook's address has changed and its scopes do not cover the event.
   */
  webhook: CallableWebhook | null
}

export interface ClaimOptions {
  db: Database
  limits: EndpointLimits
  /** How long a claim lasts in ms; after that, another sender may claim the delivery. */
  leaseMs: number
  /** This process's sending slots: how many are free, and how many each owner occupies. */
  slots: Slots
}

/**
 * Claims due deliveries: at most one for each free slot, a few per endpoint. Responsive endpoints come first, and no
 * owner gets more than its share. Skips the waiting deliveries of slow or dead endpoints, and of owners that have used
 * up their share, without reading them.
 */
export function claimDue({ db, limits, leaseMs, slots }: ClaimOptions, nowMs: number): Promise<Due[]> {
  return db.write(async (tx) => {
    const chosen: Chosen[] = []
    const checked: { owner: string; rank: Rank }[] = []
    let left = slots
    for (const rank of ranks) {
      const room = roomFor(left, rank)
      if (room === 0) continue
      const owners = await dueOwners(tx, db, left, { rank, max: room, nowMs })
      if (owners.length === 0) continue
      checked.push(...owners.map((owner) => ({ owner, rank })))
      const lanes = await dueQueues(tx, db, { owners, rank, each: Math.ceil(room / owners.length), limits, nowMs })
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
    await settleOwners(tx, db, checked, nowMs)
    return claimed
  })
}

/**
 * Returns, for each endpoint queue, when to check it again and when its most recent calls started. If another
 * transaction has locked an admitted delivery, the queue is checked again now, and that call does not count as started.
 */
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
  // Skips deliveries that are briefly locked because their webhook is being changed or deleted. `not (status <> …)`
  // keeps the planner from using the status index, so that rows are looked up by id.
  const { rows } = await sql<Omit<Due, 'webhook' | 'limitMs' | keyof Held>>`
    update deliveries set lease_until = ${leaseUntil}, fence = fence + 1 where id in (
      select id from deliveries where id in (${wanted}) and not (status <> 'pending') and lease_until is null
      ${engine.lockFreeRows})
    returning id, fence, lane, event_id as "eventId", webhook_id as "webhookId", url, body, attempts, round,
      tries_before as "triesBefore", is_test as "isTest", stops, owner_client as "ownerClient", owner_subject as "ownerSubject",
      event_type as type,
      (select case when events.owner_client = deliveries.owner_client then trace else substr(trace, 1, 55) end
        from events where events.id = deliveries.event_id) as trace`.execute(tx.withoutPlugins())
  const webhooks = await webhooksToCall(tx, { engine }, rows)
  const lanes = new Map(chosen.map((lane) => [lane.lane, lane]))
  return rows.map((row) => {
    const webhook = webhooks.get(row.id) ?? null
    const { owner, rank, failures } = lanes.get(row.lane) as Chosen
    const limitMs = shortLimitMs({ failures }, limits)
    return { ...row, owner, rank, limitMs, url: webhook?.callbackUrl ?? row.url, webhook }
  })
}

/** Sets the next check of each queue: when its first waiting delivery is due, but not before the given instant. */
async function arm(tx: Queryable, { engine }: Database, rows: string[][]): Promise<void> {
  if (rows.length === 0) return
  await sql`
    update delivery_lanes set recent = a.recent, due_at = case when ${firstWaiting} < a.floor then a.floor
      else ${firstWaiting} end
    from (select value ->> 0 as lane, value ->> 1 as floor, value ->> 2 as recent
      from ${engine.jsonRows(JSON.stringify(rows))}) as a where a.lane = delivery_lanes.lane`.execute(tx)
}
