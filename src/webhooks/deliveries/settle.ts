import { sql } from 'kysely'
import type { Queue, Work } from '../../queue/queue.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Webhook } from '../../storage/tables/tables.ts'
import { coveredBy, effectiveScopes } from '../dispatch/subscribers.ts'
import { testQueueId } from '../queue/endpoint-queue.ts'

/** Maximum number of waiting deliveries that one transaction marks as failed or redirects to a new address. */
export const settledAtOnce = 100

interface SettleOptions {
  db: Database
  queue: Queue
}

/** A position among an endpoint queue's deliveries, which are ordered by `next_attempt_at` and `id`. */
interface Position {
  nextAttemptAt: string
  id: string
}

/**
 * Applies a webhook's change or deletion to its waiting deliveries, in the same transaction. After a change of address,
 * a delivery is redirected to the new address if the webhook's scopes cover its event; otherwise it is marked as
 * failed. If the webhook was paused, disabled or deleted, all of its waiting deliveries are marked as failed.
 *
 * A job settles the deliveries beyond the first `settledAtOnce`; until then, each claim checks the webhook
 * (`whyStopped`). Calls in flight continue and may still succeed; they are retried only after a change of address.
 */
export async function settle(tx: Queryable, { db, queue }: SettleOptions, webhookId: string, instant: string) {
  const webhook = await lockWebhook(tx, db, webhookId)
  if (webhook !== undefined) await settleInFlight(tx, webhook, instant)
  for (const lane of queueIdsOf(webhookId)) {
    if ((await settleSome(tx, webhook, lane, null, instant)) === null) continue
    return queue.enqueue(tx, 'webhook.settle', { webhookId })
  }
}

/** Handles `webhook.settle` jobs: settles the remaining deliveries, one batch per transaction. Idempotent. */
export const settleRest = ({ db, now }: Pick<SettleOptions, 'db'> & { now: () => number }): Work => {
  const step = (webhookId: string, lane: string, after: Position | null) =>
    db.write(async (tx) => {
      const webhook = await lockWebhook(tx, db, webhookId)
      return settleSome(tx, webhook, lane, after, new Date(now()).toISOString())
    })
  return async ({ payload, signal, finish }) => {
    const { webhookId } = payload as { webhookId: string }
    for (const lane of queueIdsOf(webhookId)) {
      for (let position = await step(webhookId, lane, null); position !== null; ) {
        signal.throwIfAborted()
        position = await step(webhookId, lane, position)
      }
    }
    await db.write(finish)
  }
}

const queueIdsOf = (webhookId: string) => [webhookId, testQueueId(webhookId)]

/**
 * Reads the webhook and locks its row until the transaction ends, as every change to a webhook does. Returns undefined
 * if the webhook was deleted.
 */
export async function lockWebhook(tx: Queryable, { engine }: Database, id: string): Promise<Webhook | undefined> {
  const held = tx.selectFrom('webhooks').selectAll().where('id', '=', id).modifyEnd(engine.lockRows)
  return held.executeTakeFirst()
}

/**
 * Settles the next few deliveries of an endpoint queue. Returns the position of the last one, or null when none are
 * left.
 */
async function settleSome(
  tx: Queryable,
  webhook: Webhook | undefined,
  lane: string,
  after: Position | null,
  instant: string,
): Promise<Position | null> {
  const waiting = await tx
    .selectFrom('deliveries')
    .select(['id', 'nextAttemptAt'])
    .where('lane', '=', lane)
    .where('status', '=', sql.lit('pending'))
    .where('leaseUntil', 'is', null)
    .$if(after !== null, (some) =>
      some.where(sql<boolean>`(next_attempt_at, id) > (${after?.nextAttemptAt}, ${after?.id})`),
    )
    .orderBy('nextAttemptAt')
    .orderBy('id')
    .limit(settledAtOnce)
    .execute()
  const ids = waiting.map(({ id }) => id)
  if (ids.length > 0) await settleThese(tx, webhook, ids, instant)
  const last = waiting[settledAtOnce - 1]
  return last === undefined ? null : { nextAttemptAt: last.nextAttemptAt ?? '', id: last.id }
}

async function settleThese(tx: Queryable, webhook: Webhook | undefined, ids: string[], completedAt: string) {
  // `not (status <> …)` keeps the planner from using the index on the status, so that rows are looked up by id.
  const waiting = tx
    .updateTable('deliveries')
    .where('id', 'in', ids)
    .where('leaseUntil', 'is', null)
    .where((row) => row.not(row('status', '<>', 'pending')))
  const ending = (reason: string) => waiting.set({ ...ended, completedAt, reason })
  if (webhook === undefined) return void (await ending('The webhook was deleted').execute())
  await ending('The webhook was paused or disabled').where('stops', '<', webhook.stops).execute()
  const moved = waiting.where('url', '<>', webhook.callbackUrl)
  const isCovered = coveredBy(await effectiveScopes(tx, webhook))
  await moved
    .set({ ...uncovered, completedAt })
    .where((row) => row.not(isCovered(row as never)))
    .execute()
  await moved.set({ url: webhook.callbackUrl }).execute()
}

const ended = { status: 'failed', nextAttemptAt: null } as const
const uncovered = { ...ended, reason: 'The scopes of the webhook no longer cover the event' }

/**
 * Redirects the retries of calls in flight to the new address, or prevents the retries if the webhook's new scopes do
 * not cover the event. There are never more than a few such calls.
 */
async function settleInFlight(tx: Queryable, webhook: Webhook, completedAt: string): Promise<void> {
  const moved = tx
    .updateTable('deliveries')
    .where('lane', 'in', queueIdsOf(webhook.id))
    .where('leaseUntil', 'is not', null)
    .where('url', '<>', webhook.callbackUrl)
    .where((row) => row.not(row('status', '<>', 'pending')))
  const isCovered = coveredBy(await effectiveScopes(tx, webhook))
  await moved
    .set({ ...uncovered, completedAt })
    .where((row) => row.not(isCovered(row as never)))
    .execute()
  await moved.set({ url: webhook.callbackUrl }).execute()
}
