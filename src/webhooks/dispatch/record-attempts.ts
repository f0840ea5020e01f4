import { sql } from 'kysely'
import type { Queryable } from '../../storage/database.ts'
import type { Webhook } from '../../storage/tables/tables.ts'
import type { Due } from '../queue/claim.ts'
import {
  type EndpointHealth,
  type EndpointLimits,
  firstWaiting,
  nextHealth,
  rankAfter,
} from '../queue/endpoint-queue.ts'
import { armOwners, type OwnerDue } from '../queue/owners.ts'
import type { Rank } from '../queue/shares.ts'
import { addAttempts, countAttempts } from './attempt-log.ts'
import { type Disabled, type FailureStreak, type HealthOptions, lockWebhooks, recordHealth } from './endpoint-health.ts'
import type { RecordedAttempt, Tried } from './outcome.ts'

export interface RecordAttemptsOptions extends HealthOptions {
  limits: EndpointLimits
  /** Seconds to wait before each attempt; one entry per attempt. */
  schedule: readonly number[]
  /** Returns a number in [0, 1). */
  jitter: () => number
  /** Called with each batch after its commit; `onDisabled` is called with each webhook that the batch disabled. */
  onRecorded?: ((recorded: readonly RecordedAttempt[]) => void) | undefined
  onDisabled?: ((webhook: Disabled) => void) | undefined
}

/**
 * Records a batch of outcomes: the attempts, each delivery's next attempt or end, and the endpoints' health. Ignores
 * claims that were lost before recording. Returns what was recorded and which webhooks were disabled. Locks rows in the
 * same order as a webhook's deletion: webhooks, deliveries, endpoint queues, statistics, audit log.
 */
export async function recordAttempts(tx: Queryable, options: RecordAttemptsOptions, batch: readonly Tried[]) {
  const nowMs = options.now()
  const webhooks = await lockWebhooks(tx, options.db, batch)
  const held = await endClaims(tx, options, batch, webhooks, nowMs)
  const ours = batch.filter(({ due }) => held.has(due.id))
  await addAttempts(tx, options.db, ours)
  const relevant = ours.filter(({ due }) => isCurrentAddress(due, webhooks))
  const failures = await updateQueues(tx, options, ours, new Set(relevant), nowMs)
  await countAttempts(tx, options.db, ours, nowMs)
  const disabled = await recordHealth(tx, options, relevant, webhooks, failures)
  const recorded = ours.map((tried) => ({ tried, ...(held.get(tried.due.id) as Omit<RecordedAttempt, 'tried'>) }))
  return { recorded, disabled }
}

/**
 * Records the batch in one transaction. If that fails, records each outcome in its own transaction, so that one bad
 * outcome cannot block the rest. A delivery that cannot be recorded is sent again once its lease expires.
 */
export async function recordTogether(
  options: RecordAttemptsOptions & { onError: (error: unknown) => void },
  batch: readonly Tried[],
): Promise<void> {
  const { db, onError, onRecorded, onDisabled } = options
  const attempt = async (some: readonly Tried[]) => {
    const { recorded, disabled } = await db.write((tx) => recordAttempts(tx, options, some))
    onRecorded?.(recorded)
    if (onDisabled) disabled.forEach(onDisabled)
  }
  try {
    await attempt(batch)
  } catch (error) {
    if (batch.length === 1) throw error
    onError(error)
    for (const tried of batch) await attempt([tried]).catch(onError)
  }
}

/**
 * Returns whether the call went to the webhook's current address. Calls to an earlier address do not affect the
 * webhook's health.
 */
const isCurrentAddress = ({ webhookId, url }: Due, webhooks: ReadonlyMap<string, Webhook>): boolean =>
  url === (webhooks.get(webhookId ?? '')?.callbackUrl ?? url)

/** Releases the claims that are still valid and updates their deliveries. Returns the updated deliveries by id. */
async function endClaims(
  tx: Queryable,
  options: RecordAttemptsOptions,
  batch: readonly Tried[],
  webhooks: ReadonlyMap<string, Webhook>,
  nowMs: number,
): Promise<Map<string, Omit<RecordedAttempt, 'tried'>>> {
  const rows = batch.map((tried) => {
    const { id, fence, attempts, round } = tried.due
    const delayMs = delayOf(options, tried, webhooks)
    const ended = delayMs === null ? new Date(nowMs).toISOString() : null
    const next = delayMs === null ? null : new Date(nowMs + delayMs).toISOString()
    const status = tried.outcome?.delivered ? 'delivered' : delayMs === null ? 'failed' : 'pending'
    const reason = tried.unsent?.reason ?? null
    return [id, fence, tried.outcome === null ? attempts : attempts + 1, round, status, next, ended, reason]
  })
  const { engine } = options.db
  // The delivery may have been settled or redelivered during the call. If it was settled, a success still counts, but a
  // failure is not retried. If it was redelivered, this attempt is counted, but does not affect the new schedule.
  const unlessRedelivered = (column: string) =>
    sql`${sql.ref(column)} = case when deliveries.round = a.round
      and (deliveries.status = 'pending' or a.status = 'delivered') then ${sql.ref(`a.${column}`)}
      else ${sql.ref(`deliveries.${column}`)} end`
  const { rows: held } = await sql<Omit<RecordedAttempt, 'tried'> & { id: string }>`
    update deliveries set lease_until = null, attempts = a.attempts,
      ${unlessRedelivered('status')}, ${unlessRedelivered('next_attempt_at')}, ${unlessRedelivered('completed_at')},
      ${unlessRedelivered('reason')}
    from (select value ->> 0 as id, cast(value ->> 1 as integer) as fence, cast(value ->> 2 as integer) as attempts,
      cast(value ->> 3 as integer) as round, value ->> 4 as status, value ->> 5 as next_attempt_at,
      value ->> 6 as completed_at, value ->> 7 as reason
      from ${engine.jsonRows(JSON.stringify(rows))}) as a
    where deliveries.id = a.id and deliveries.fence = a.fence and lease_until is not null
    returning deliveries.id, deliveries.status as state, deliveries.next_attempt_at as "nextAttemptAt"`.execute(
    tx.withoutPlugins(),
  )
  return new Map(held.map(({ id, ...state }) => [id, state]))
}

/** Returns the delay before the next attempt in ms, or null if there is no further attempt. */
function delayOf(
  { schedule, jitter }: RecordAttemptsOptions,
  { due, outcome }: Tried,
  webhooks: ReadonlyMap<string, Webhook>,
) {
  if (outcome === null || outcome.delivered || due.isTest === 1) return null
  if (outcome.gone && isCurrentAddress(due, webhooks)) return null
  if (due.webhookId !== null && webhooks.get(due.webhookId)?.status !== 'active') return null
  return retryDelayMs(schedule, due.attempts + 1 - due.triesBefore, outcome.retryAfterSeconds, jitter)
}

/**
 * Counts consecutive failures and makes the endpoint queues available again. Returns each queue's count before and
 * after the update.
 */
async function updateQueues(
  tx: Queryable,
  { db, limits }: RecordAttemptsOptions,
  batch: readonly Tried[],
  relevant: ReadonlySet<Tried>,
  nowMs: number,
): Promise<Map<string, FailureStreak>> {
  const tries = Map.groupBy(batch, ({ due }) => due.lane)
  const names = JSON.stringify([...tries].map(([lane, [one]]) => [lane, one?.due.owner]))
  // An idle queue may have been removed during the call (`expire.ts`).
  await sql`
    insert into delivery_lanes (lane, owner) select value ->> 0, value ->> 1 from ${db.engine.jsonRows(names)} where true
    on conflict do nothing`.execute(tx)
  const { rows: found } = await sql<EndpointHealth & { lane: string; rank: Rank }>`
    select lane, failures, open_until, rank from delivery_lanes
    where lane in (select value ->> 0 from ${db.engine.jsonRows(names)}) order by lane ${db.engine.lockRows}`.execute(
    tx,
  )
  const after = found.map(({ lane, ...health }) => {
    const step = (one: typeof health, tried: Tried) => {
      if (!tried.outcome || !relevant.has(tried)) return one
      const { delivered } = tried.outcome
      return { ...nextHealth(one, delivered, nowMs, limits), rank: rankAfter(delivered) }
    }
    return { lane, ...(tries.get(lane) ?? []).reduce(step, health) }
  })
  // Queues that were just served go behind those still waiting.
  const instant = new Date(nowMs).toISOString()
  const floorOf = ({ openUntil }: EndpointHealth) => (openUntil !== null && openUntil > instant ? openUntil : instant)
  const rows = JSON.stringify(after.map((one) => [one.lane, one.failures, one.openUntil, floorOf(one), one.rank]))
  const { rows: armed } = await sql<OwnerDue>`
    update delivery_lanes set failures = a.failures, open_until = a.open_until, rank = a.rank,
      due_at = case when ${firstWaiting} < a.floor then a.floor else ${firstWaiting} end
    from (select value ->> 0 as lane, cast(value ->> 1 as integer) as failures, value ->> 2 as open_until,
      value ->> 3 as floor, cast(value ->> 4 as integer) as rank from ${db.engine.jsonRows(rows)}) as a
    where a.lane = delivery_lanes.lane returning owner, delivery_lanes.rank, due_at`.execute(tx)
  await armOwners(tx, db, armed)
  const before = new Map(found.map(({ lane, failures }) => [lane, failures]))
  return new Map(after.map(({ lane, failures }) => [lane, { before: before.get(lane) ?? 0, after: failures }]))
}

const maxWaitSeconds = 86_400

/**
 * Returns the delay in ms after the given number of failed attempts: the delay from the schedule ±20 %, or longer if
 * the receiver sent Retry-After, up to a day. Returns null when the schedule is exhausted. `jitter` is in [0, 1).
 */
export function retryDelayMs(
  schedule: readonly number[],
  tries: number,
  retryAfterSeconds: number | null,
  jitter: () => number,
): number | null {
  const seconds = schedule[tries]
  if (seconds === undefined) return null
  const retryAfter = Math.min(retryAfterSeconds ?? 0, maxWaitSeconds)
  return Math.round(Math.max(seconds * (0.8 + 0.4 * jitter()), retryAfter) * 1_000)
}
