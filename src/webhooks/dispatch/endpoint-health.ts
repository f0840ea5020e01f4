import { sql } from 'kysely'
import { auditRecorder, theService } from '../../audit/chain.ts'
import type { Queue } from '../../queue/queue.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import type { RandomBytes } from '../../storage/ids.ts'
import { nextRevision } from '../../storage/rows/revision.ts'
import type { Webhook } from '../../storage/tables/tables.ts'
import { settle } from '../deliveries/settle.ts'
import { recordHealthEvent } from './health-events.ts'
import type { Tried } from './outcome.ts'

export interface HealthOptions {
  db: Database
  queue: Queue
  sealer: Sealer
  now: () => number
  random: RandomBytes
}

const dayMs = 86_400_000
const notifyAfterMs = dayMs
const disabledAfterMs = 5 * dayMs
const minFailures = 10
const healthy = { failingSince: null, failingTold: null }

/** The id of a disabled webhook, and the reason shown to its owner. */
export interface Disabled {
  webhookId: string
  reason: string
}

/** An endpoint queue's consecutive failures before and after a batch was recorded. */
export interface FailureStreak {
  before: number
  after: number
}

/**
 * Locks the webhooks in a batch whose health may change, before any other row and in id order, to avoid deadlocks, and
 * returns them by id. Skips webhooks that were healthy and succeeded again.
 */
export async function lockWebhooks(tx: Queryable, { engine }: Database, batch: readonly Tried[]) {
  const registered = batch.filter(({ due }) => due.webhookId !== null)
  if (registered.length === 0) return new Map<string, Webhook>()
  const among = (tries: readonly Tried[]) => {
    const ids = new Set(tries.map(({ due }) => due.webhookId))
    return sql`id in (select value ->> 0 from ${engine.jsonRows(JSON.stringify([...ids].map((id) => [id])))})`
  }
  const unsuccessful = registered.filter(({ outcome }) => !outcome?.delivered)
  const { rows } = await sql<Webhook>`
    select * from webhooks where ${among(registered)} and (failing_since is not null or ${among(unsuccessful)})
    order by id ${engine.lockRows}`.execute(tx)
  return new Map(rows.map((row) => [row.id, row]))
}

/**
 * Records when webhooks began to fail, notifies their owners after a day, and disables webhooks that returned 410 or
 * have failed for five days and at least ten attempts. Writes audit entries last. Returns the disabled webhooks.
 */
export async function recordHealth(
  tx: Queryable,
  options: HealthOptions,
  batch: readonly Tried[],
  webhooks: ReadonlyMap<string, Webhook>,
  failures: ReadonlyMap<string, FailureStreak>,
): Promise<Disabled[]> {
  const nowMs = options.now()
  await endFailingPeriods(tx, options.db, batch, webhooks, failures)
  const changed: Webhook[] = []
  const ending: { webhook: Webhook; reason: string }[] = []
  for (const [id, tries] of Map.groupBy(batch, ({ due }) => due.webhookId)) {
    const before = webhooks.get(id ?? '')
    if (before === undefined) continue
    const streak = failures.get(before.id)
    // A concurrent transaction may have recorded a success and reset the queue's failures to 0 without updating the
    // webhook. Its failing period is over in that case too.
    const isOver = streak?.before === 0
    const after = tries.reduce(afterOne, isOver ? { ...before, ...healthy } : before)
    const reason = whyDisable(after, tries, streak?.after ?? 0, nowMs)
    if (reason !== null && after.status === 'active') ending.push({ webhook: after, reason })
    else if (needsNotice(after, nowMs)) after.failingTold = await notifyFailing(tx, options, after, nowMs)
    if (after.failingSince !== before.failingSince || after.failingTold !== before.failingTold) changed.push(after)
  }
  await storeFailing(tx, options.db, changed)
  for (const { webhook, reason } of ending) await disable(tx, options, webhook, reason)
  return ending.map(({ webhook: { id: webhookId }, reason }) => ({ webhookId, reason }))
}

/**
 * Updates the health after one attempt. Any success ends a failing period, even a successful test; a failed test does
 * not start one. A 410 does not count as a failure: it disables the webhook.
 */
function afterOne(webhook: Webhook, { due, outcome, startedAt }: Tried): Webhook {
  if (outcome === null || outcome.gone) return webhook
  if (outcome.delivered) return { ...webhook, ...healthy }
  if (due.isTest === 1) return webhook
  return { ...webhook, failingSince: webhook.failingSince ?? startedAt }
}

function whyDisable(
  { failingSince }: Webhook,
  tries: readonly Tried[],
  failures: number,
  nowMs: number,
): string | null {
  if (tries.some(({ outcome }) => outcome?.gone)) return 'The endpoint responded with 410 Gone'
  if (failingSince === null || nowMs - Date.parse(failingSince) < disabledAfterMs || failures < minFailures) return null
  return 'No call has succeeded for five days'
}

/**
 * Returns whether to notify the owner, which is done only once per failing period. A notification sent before this
 * period began belongs to an earlier period.
 */
const needsNotice = ({ status, failingSince, failingTold }: Webhook, nowMs: number): boolean =>
  status === 'active' &&
  failingSince !== null &&
  (failingTold === null || failingTold < failingSince) &&
  nowMs - Date.parse(failingSince) >= notifyAfterMs

async function notifyFailing(tx: Queryable, options: HealthOptions, webhook: Webhook, nowMs: number): Promise<string> {
  const instant = new Date(nowMs).toISOString()
  const since = webhook.failingSince as string
  const healthEvent = { kind: 'webhook.failing', since, reason: 'No call has succeeded for a day' } as const
  await recordHealthEvent(tx, options, webhook, healthEvent, instant)
  return instant
}

/**
 * Ends a failing period that another transaction began after this one had found the webhook healthy. In that case, the
 * batch contains a success, but the endpoint queue, which is now locked, already had failures. Skips webhooks locked by
 * another transaction, because the next failure checks the queue again.
 */
async function endFailingPeriods(
  tx: Queryable,
  { engine }: Database,
  batch: readonly Tried[],
  webhooks: ReadonlyMap<string, Webhook>,
  failures: ReadonlyMap<string, FailureStreak>,
): Promise<void> {
  const ids = new Set<string>()
  for (const { due, outcome } of batch) {
    const id = due.webhookId ?? ''
    if (outcome?.delivered && !webhooks.has(id) && (failures.get(id)?.before ?? 0) > 0) ids.add(id)
  }
  if (ids.size === 0) return
  const missed = engine.jsonRows(JSON.stringify([...ids].map((id) => [id])))
  await sql`
    update webhooks set failing_since = null, failing_told = null where id in (
      select id from webhooks where id in (select value ->> 0 from ${missed}) and failing_since is not null
      ${engine.lockFreeRows})`.execute(tx)
}

async function storeFailing(tx: Queryable, { engine }: Database, changed: readonly Webhook[]): Promise<void> {
  if (changed.length === 0) return
  const rows = JSON.stringify(changed.map(({ id, failingSince, failingTold }) => [id, failingSince, failingTold]))
  await sql`
    update webhooks set failing_since = a.since, failing_told = a.told
    from (select value ->> 0 as id, value ->> 1 as since, value ->> 2 as told from ${engine.jsonRows(rows)}) as a
    where a.id = webhooks.id`.execute(tx)
}

/**
 * Disables a webhook, with a reason that its owner can read, and marks its waiting deliveries as failed. The owner can
 * enable the webhook again.
 */
async function disable(tx: Queryable, options: HealthOptions, webhook: Webhook, reason: string): Promise<void> {
  const instant = new Date(options.now()).toISOString()
  await tx
    .updateTable('webhooks')
    .set((row) => ({ status: 'disabled', statusReason: reason, stops: row('stops', '+', 1) }))
    .set(nextRevision('webhooks', instant))
    .where('id', '=', webhook.id)
    .execute()
  await settle(tx, options, webhook.id, instant)
  await recordHealthEvent(tx, options, webhook, { kind: 'webhook.disabled', since: instant, reason }, instant)
  const entry = { ...theService, event: 'webhook.disabled', target: webhook.id, details: { reason } } as const
  await auditRecorder(options.sealer, options.now)(tx, entry)
}
