import { type RawBuilder, sql } from 'kysely'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Owned } from '../../storage/rows/revision.ts'
import { armOwners, type OwnerDue } from './owners.ts'
import type { Rank } from './shares.ts'

/** Per-endpoint delivery limits. */
export interface EndpointLimits {
  /** Maximum number of calls in flight, on all nodes together. */
  inFlight: number
  /** Maximum number of calls started in any one second; Infinity for no limit. */
  perSecond: number
  /**
   * Consecutive failures after which the circuit breaker opens; from then on, one call at a time probes the endpoint.
   */
  breakAfter: number
  /** Seconds before the first probe, doubled with each failure up to `maxPauseSeconds`. */
  firstPauseSeconds: number
  maxPauseSeconds: number
  /** Time limit of most probes, in seconds; every fourth probe has the default limit. */
  probeSeconds: number
}

export const defaultEndpointLimits: EndpointLimits = {
  inFlight: 4,
  perSecond: 10,
  breakAfter: 10,
  firstPauseSeconds: 5,
  maxPauseSeconds: 60,
  probeSeconds: 5,
}

/** An endpoint's circuit-breaker state. */
export interface EndpointHealth {
  failures: number
  openUntil: string | null
}

/** A queue's state when it is checked; `recent` holds the start times of its last calls in epoch ms. */
export interface QueueState extends EndpointHealth {
  recent: readonly number[]
  inFlight: number
  /** How many due deliveries could be sent now; at most `EndpointLimits.inFlight`. */
  waiting: number
}

/** How many calls may start now; `floorMs` is the earliest time at which more may start, unless a call ends sooner. */
export interface Admission {
  count: number
  floorMs: number
  recent: number[]
}

const secondMs = 1_000

/**
 * Decides how many calls may start now. If the queue has reached its limit of concurrent calls, it is checked again
 * when a call ends or, at the latest, once a lease expires.
 */
export function grant(lane: QueueState, nowMs: number, limits: EndpointLimits, leaseMs: number): Admission {
  // Setting the clock back must not block an endpoint.
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

/** Returns an endpoint's state after one more attempt. */
export function nextHealth(
  { failures }: EndpointHealth,
  delivered: boolean,
  nowMs: number,
  limits: EndpointLimits,
): EndpointHealth {
  if (delivered) return { failures: 0, openUntil: null }
  const beyond = failures + 1 - limits.breakAfter
  if (beyond < 0) return { failures: failures + 1, openUntil: null }
  const pauseSeconds = Math.min(limits.firstPauseSeconds * 2 ** Math.min(beyond, 30), limits.maxPauseSeconds)
  return { failures: failures + 1, openUntil: new Date(nowMs + pauseSeconds * 1_000).toISOString() }
}

/** Returns the endpoint's rank after an attempt. */
export const rankAfter = (delivered: boolean): Rank => (delivered ? 0 : 2)

const fullLimitEach = 4

/**
 * Returns the next call's time limit in ms; null for the default limit. Calls after too many failures get a shorter
 * limit, so that dead endpoints occupy slots only briefly. Every fourth of them gets the default limit, so that a
 * merely slow endpoint can recover.
 */
export function shortLimitMs({ failures }: Pick<EndpointHealth, 'failures'>, limits: EndpointLimits): number | null {
  const beyond = failures - limits.breakAfter
  return beyond < 0 || beyond % fullLimitEach === fullLimitEach - 1 ? null : limits.probeSeconds * 1_000
}

/**
 * Returns the id of a delivery's endpoint queue. There is one queue per webhook, and one per client and origin for
 * one-off callback URLs, so that a client's callbacks cannot slow down another client's calls to the same host.
 */
export const endpointQueueId = (
  { webhookId, url }: { webhookId: string | null; url: string },
  ownerClient: string,
): string => webhookId ?? `${ownerClient} ${URL.parse(url)?.origin}`

/**
 * Returns the owner that a delivery's slot counts against: the webhook's owner, or the client for one-off callback
 * URLs.
 */
export const shareOf = (webhookId: string | null, { ownerClient, ownerSubject }: Owned): string =>
  webhookId === null ? ownerClient : `${ownerClient} ${ownerSubject}`

/** Returns the id of the queue for a webhook's test deliveries, which must not wait behind other deliveries. */
export const testQueueId = (webhookId: string): string => `${webhookId} test`

/** The earliest `next_attempt_at` among a queue's waiting deliveries, or null. */
export const firstWaiting: RawBuilder<string | null> = sql`(
  select min(next_attempt_at) from deliveries
  where lane = delivery_lanes.lane and status = 'pending' and lease_until is null)`

/**
 * Returns an expression for the owner (see `shareOf`) of a queue's first waiting delivery; null if none is waiting.
 * Uses the sort order of the index, because PostgreSQL might otherwise read the waiting deliveries of all queues.
 */
const ownerOf = (lane: RawBuilder<unknown>): RawBuilder<string | null> => sql`(
  select case when webhook_id is null then owner_client else owner_client || ' ' || owner_subject end from deliveries
  where deliveries.lane = ${lane} and status = 'pending' and lease_until is null order by next_attempt_at, id limit 1)`

/**
 * Resets the circuit breaker of a webhook's endpoint; the webhook's queues are checked as soon as a delivery is due.
 */
export async function resetEndpointQueues(tx: Queryable, db: Database, webhookId: string): Promise<void> {
  const { rows } = await sql<OwnerDue>`
    update delivery_lanes set failures = 0, open_until = null, rank = 1, due_at = ${firstWaiting} where lane in (
      select lane from delivery_lanes where lane in (${webhookId}, ${testQueueId(webhookId)})
      order by lane ${db.engine.lockRows}) returning owner, rank, due_at`.execute(tx)
  await armOwners(tx, db, rows)
}

/**
 * Schedules the next check of each queue for the given time, unless an earlier check is scheduled. Called in the
 * transaction that makes the deliveries due. Ignores queues with no waiting delivery.
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
