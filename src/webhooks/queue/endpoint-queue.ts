import { type RawBuilder, sql } from 'kysely'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Owned } from '../../storage/rows/revision.ts'
import { armOwners, type OwnerDue } from './owners.ts'
import type { Rank } from './shares.ts'

/** Per-endpoint delivery limits. */
export interface EndpointLimits {
  /** Maximum calls in flight, over all nodes. */
  inFlight: number
  /** Maximum calls begun in any second; Infinity for no limit. */
  perSecond: number
  /** Consecutive failures after which the circuit opens: only one call at a time probes the endpoint. */
  breakAfter: number
  /** Seconds before the first probe, doubled with each failure up to `maxPauseSeconds`. */
  firstPauseSeconds: number
  maxPauseSeconds: number
  /** The time limit of most probes; the others have the default limit. */
  probeSeconds: number
}

export const laneLimits: EndpointLimits = {
  inFlight: 4,
  perSecond: 10,
  breakAfter: 10,
  firstPauseSeconds: 5,
  maxPauseSeconds: 60,
  probeSeconds: 5,
}

/** Circuit-breaker state of an endpoint. */
export interface LaneHealth {
  failures: number
  openUntil: string | null
}

/** State of a queue when it is checked: `recent` are the start times of its last calls in epoch ms. */
export interface LaneState extends LaneHealth {
  recent: readonly number[]
  inFlight: number
  /** How many deliveries are due. */
  waiting: number
}

/** How many calls may begin now; `floorMs` is the earliest time to check again, unless a call ends before. */
export interface Admission {
  count: number
  floorMs: number
  recent: number[]
}

const secondMs = 1_000

/**
 * Decides how many calls may begin now. A queue whose calls are all in flight is checked again when one of their leases
 * expires.
 */
export function grant(lane: LaneState, nowMs: number, limits: EndpointLimits, leaseMs: number): Admission {
  // A clock that was set back must not block an endpoint.
  const isRecent = (at: number) => at > nowMs - secondMs && at <= nowMs
  const recent = Number.isFinite(limits.perSecond) ? lane.recent.filter(isRecent) : []
  const isOpen = lane.failures >= limits.breakAfter
  const free = Math.max(0, (isOpen ? 1 : limits.inFlight) - lane.inFlight)
  const slots = Math.max(0, limits.perSecond - recent.length)
  const pausedMs = isOpen ? Math.min(Date.parse(lane.openUntil ?? '') - nowMs, limits.maxPauseSeconds * 1_000) : 0
  if (pausedMs > 0) return { count: 0, floorMs: nowMs + pausedMs, recent }
  const count = Math.min(free, slots, lane.waiting)
  if (Number.isFinite(slots)) for (let n = 0; n < count; n++) recent.push(nowMs)
  if (count === free) return { count, floorMs: nowMs + leaseMs, recent }
  return { count, floorMs: count === slots ? (recent[0] ?? nowMs) + secondMs : nowMs, recent }
}

/** An endpoint's state after one more attempt. */
export function nextHealth(
  { failures }: LaneHealth,
  delivered: boolean,
  nowMs: number,
  limits: EndpointLimits,
): LaneHealth {
  if (delivered) return { failures: 0, openUntil: null }
  const beyond = failures + 1 - limits.breakAfter
  if (beyond < 0) return { failures: failures + 1, openUntil: null }
  const pauseSeconds = Math.min(limits.firstPauseSeconds * 2 ** Math.min(beyond, 30), limits.maxPauseSeconds)
  return { failures: failures + 1, openUntil: new Date(nowMs + pauseSeconds * 1_000).toISOString() }
}

/** The rank of an endpoint after an attempt. */
export const rankAfter = (delivered: boolean): Rank => (delivered ? 0 : 2)

const fullLimitEach = 4

/**
 * The time limit of the next call in ms: shorter after too many failures, so that dead endpoints occupy few slots. Every
 * fourth such call has the default limit (null), so that an endpoint that is merely slow can recover.
 */
export function shortLimitMs({ failures }: Pick<LaneHealth, 'failures'>, limits: EndpointLimits): number | null {
  const beyond = failures - limits.breakAfter
  return beyond < 0 || beyond % fullLimitEach === fullLimitEach - 1 ? null : limits.probeSeconds * 1_000
}

/**
 * The endpoint queue of a delivery: one per webhook, or per client and origin for one-off callback URLs. What one client's
 * addresses cause there does not slow down other clients that call the same host.
 */
export const endpointQueueId = (
  { webhookId, url }: { webhookId: string | null; url: string },
  ownerClient: string,
): string => webhookId ?? `${ownerClient} ${URL.parse(url)?.origin}`

/** Whose share the calls of a delivery use: the webhook owner's, or the client's for one-off callback URLs. */
export const shareOf = (webhookId: string | null, { ownerClient, ownerSubject }: Owned): string =>
  webhookId === null ? ownerClient : `${ownerClient} ${ownerSubject}`

/** Tests have their own queue: their result must not wait behind other deliveries. */
export const testLaneOf = (webhookId: string): string => `${webhookId} test`

/** The earliest `next_attempt_at` among a queue's waiting deliveries, or null. */
export const firstWaiting: RawBuilder<string | null> = sql`(
  select min(next_attempt_at) from deliveries
  where lane = delivery_lanes.lane and status = 'pending' and lease_until is null)`

/**
 * `shareOf` the first waiting delivery of a queue; null if none waits. The order is that of the index: otherwise PostgreSQL
 * may read all waiting deliveries of every queue.
 */
const ownerOf = (lane: RawBuilder<unknown>): RawBuilder<string | null> => sql`(
  select case when webhook_id is null then owner_client else owner_client || ' ' || owner_subject end from deliveries
  where deliveries.lane = ${lane} and status = 'pending' and lease_until is null order by next_attempt_at, id limit 1)`

/** Resets the circuit breaker of a webhook's endpoint, and checks its queues as soon as something is due. */
export async function resetLanes(tx: Queryable, db: Database, webhookId: string): Promise<void> {
  const { rows } = await sql<OwnerDue>`
    update delivery_lanes set failures = 0, open_until = null, rank = 1, due_at = ${firstWaiting} where lane in (
      select lane from delivery_lanes where lane in (${webhookId}, ${testLaneOf(webhookId)})
      order by lane ${db.engine.lockRows}) returning owner, rank, due_at`.execute(tx)
  await armOwners(tx, db, rows)
}

/**
 * Makes queues due from the given instants on, within the transaction that makes their deliveries due. Ignores queues
 * without a waiting delivery.
 */
export async function scheduleEndpointQueues(
  tx: Queryable,
  db: Database,
  due: ReadonlyMap<string, string>,
): Promise<void> {
  if (due.size === 0) return
  // Sorted, so that concurrent transactions cannot deadlock.
  const armed = JSON.stringify([...due].sort(([one], [other]) => (one < other ? -1 : 1)))
  const { rows } = await sql<OwnerDue>`
    insert into delivery_lanes (lane, due_at, owner)
    select * from (
      select value ->> 0, value ->> 1, ${ownerOf(sql`value ->> 0`)} as owner from ${db.engine.jsonRows(armed)}) as a
    where owner is not null
    on conflict (lane) do update set due_at = excluded.due_at, owner = excluded.owner
    where delivery_lanes.due_at is null or delivery_lanes.due_at > excluded.due_at
    returning owner, rank, due_at`.execute(tx)
  await armOwners(tx, db, rows)
}
