import { auditRecorder, theService } from '../../db/audit.ts'
import type { Queryable } from '../../db/open.ts'
import type { Job } from '../../queue/queue.ts'
import type { DeliverOptions, Due } from './deliver.ts'
import { abandonDeliveries } from './deliveries.ts'
import { retryDelayMs } from './schedule.ts'
import type { Outcome } from './send.ts'

interface Tried {
  job: Job
  due: Due
  startedAt: string
  outcome: Outcome
}

/**
 * Writes what came of one try and enqueues the next, or throws `LeaseLost` and changes nothing. Rows are locked in the
 * order job, webhook, deliveries, as deleting a registration does, so that neither waits for the other.
 */
export async function record(tx: Queryable, options: DeliverOptions, tried: Tried): Promise<void> {
  const { job, due, startedAt, outcome } = tried
  await job.finish(tx)
  await tx
    .insertInto('attempts')
    .values({
      deliveryId: due.id,
      attempt: due.attempts + 1,
      startedAt,
      durationMs: Math.round(outcome.durationMs),
      statusCode: outcome.status,
      error: outcome.error,
      responseStart: outcome.responseStart,
    })
    .execute()
  const nowMs = options.now()
  const goesOn = await recordHealth(tx, options, tried, new Date(nowMs).toISOString())
  const tries = due.attempts + 1 - due.triesBefore
  const delayMs =
    goesOn && due.isTest === 0 ? retryDelayMs(options.schedule, tries, outcome.retryAfterSeconds, options.jitter) : null
  await updateDelivery(tx, tried, nowMs, delayMs)
  if (delayMs === null) return
  const next = { deliveryId: due.id, ...(due.round > 0 && { round: due.round }) }
  await options.queue.enqueue(tx, 'delivery.send', next, { delayMs })
}

async function updateDelivery(tx: Queryable, { due, outcome }: Tried, nowMs: number, delayMs: number | null) {
  const ended = { nextAttemptAt: null, completedAt: new Date(nowMs).toISOString() }
  const result = outcome.delivered
    ? { status: 'delivered' as const, ...ended }
    : delayMs === null
      ? { status: 'failed' as const, ...ended }
      : // Said anew, because the registration may have ended it a moment ago; the next job then sees to that.
        { status: 'pending' as const, nextAttemptAt: new Date(nowMs + delayMs).toISOString(), completedAt: null }
  const attempts = due.attempts + 1
  const row = tx.updateTable('deliveries').where('id', '=', due.id)
  const ofRound = row.set({ attempts, ...result }).where('round', '=', due.round)
  if ((await ofRound.executeTakeFirst()).numUpdatedRows > 0n) return
  // A redelivery that was asked for meanwhile counts this try, and goes on by itself.
  await row.set({ attempts }).execute()
}

/** Keeps the registration's state of health; true when a failed delivery may be tried again. */
async function recordHealth(tx: Queryable, options: DeliverOptions, tried: Tried, instant: string): Promise<boolean> {
  const { delivered, gone } = tried.outcome
  const { webhookId } = tried.due
  if (webhookId === null) return !delivered && !gone
  if (gone) await disable(tx, options, { webhookId, reason: 'The endpoint answered 410 Gone', instant })
  else await markFailing(tx, webhookId, delivered ? null : tried.startedAt)
  if (delivered || gone) return false
  const row = await tx.selectFrom('webhooks').select('status').where('id', '=', webhookId).executeTakeFirst()
  return row?.status === 'active'
}

/** Since when the endpoint fails without a success in between; only a turn for better or worse writes the row. */
async function markFailing(tx: Queryable, webhookId: string, since: string | null): Promise<void> {
  await tx
    .updateTable('webhooks')
    .set({ failingSince: since })
    .where('id', '=', webhookId)
    .where('failingSince', since === null ? 'is not' : 'is', null)
    .execute()
}

/** Ends a registration's deliveries with the reason shown; the owner can enable it again. */
async function disable(
  tx: Queryable,
  { sealer, now }: DeliverOptions,
  { webhookId, reason, instant }: { webhookId: string; reason: string; instant: string },
): Promise<void> {
  const { numUpdatedRows } = await tx
    .updateTable('webhooks')
    .set((row) => ({ status: 'disabled', statusReason: reason, updatedAt: instant, revision: row('revision', '+', 1) }))
    .where('id', '=', webhookId)
    .where('status', '=', 'active')
    .executeTakeFirstOrThrow()
  await abandonDeliveries(tx, { webhookId }, instant)
  if (numUpdatedRows === 0n) return
  const entry = { ...theService, event: 'webhook.disabled', target: webhookId, details: { reason } } as const
  await auditRecorder(sealer, now)(tx, entry)
}
