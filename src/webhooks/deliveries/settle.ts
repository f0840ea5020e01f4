import { sql } from 'kysely'
import type { Queue, Work } from '../../queue/queue.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Webhook } from '../../storage/tables/tables.ts'
import { coveredBy, effectiveScopes } from '../dispatch/subscribers.ts'
import { testLaneOf } from '../queue/endpoint-queue.ts'

/** Maximum waiting deliveries that one transaction ends or moves. */
export const settledAtOnce = 100

interface SettleOptions {
  db: Database
  queue: Queue
}

/** A position among the deliveries of an endpoint queue, which are ordered by `next_attempt_at` and `id`. */
interface Place {
  nextAttemptAt: string
  id: string
}

/**
 * Brings a webhook's waiting deliveries in line with it, in the transaction that changed or deleted it. Deliveries move to
 * its new address if its scopes cover them. They end once it was paused, disabled or deleted, so that the log shows no
 * further attempt. Beyond the first `settledAtOnce` a job continues; until then each claim checks the webhook (`isStopped`).
 * Calls in flight run to their end: they may still succeed, and are not retried.
 */
export async function settle(tx: Queryable, { db, queue }: SettleOptions, webhookId: string, instant: string) {
  const webhook = await heldRegistration(tx, db, webhookId)
  if (webhook !== undefined) await settleUnderWay(tx, webhook, instant)
  for (const lane of lanesOf(webhookId)) {
    if ((await settleSome(tx, webhook, lane, null, instant)) === null) continue
    return queue.enqueue(tx, 'webhook.settle', { webhookId })
  }
}

/**
 * Handles `webhook.settle` jobs: the remaining deliveries, one transaction after another. Running twice changes nothing
 * more.
 */
export const settleRest = ({ db, now }: Pick<SettleOptions, 'db'> & { now: () => number }): Work => {
  const step = (webhookId: string, lane: string, after: Place | null) =>
    db.write(async (tx) => {
      const webhook = await heldRegistration(tx, db, webhookId)
      return settleSome(tx, webhook, lane, after, new Date(now()).toISOString())
    })
  return async ({ payload, signal, finish }) => {
    const { webhookId } = payload as { webhookId: string }
    for (const lane of lanesOf(webhookId)) {
      for (let place = await step(webhookId, lane, null); place !== null; ) {
        signal.throwIfAborted()
        place = await step(webhookId, lane, place)
      }
    }
    await db.write(finish)
  }
}

const lanesOf = (webhookId: string) => [webhookId, testLaneOf(webhookId)]

/** The webhook, locked until the end of the transaction like every change of it; undefined once it is deleted. */
export async function heldRegistration(tx: Queryable, { engine }: Database, id: string): Promise<Webhook | undefined> {
  const held = tx.selectFrom('webhooks').selectAll().where('id', '=', id).modifyEnd(engine.lockRows)
  return held.executeTakeFirst()
}

/** Settles the next few deliveries of an endpoint queue; returns the last one's position, or null when there are no more. */
async function settleSome(
  tx: Queryable,
  webhook: Webhook | undefined,
  lane: string,
  after: Place | null,
  instant: string,
): Promise<Place | null> {
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
  // The negation keeps the planner off the index on the status: the rows are looked up by id.
  const waiting = tx
    .updateTable('deliveries')
    .where('id', 'in', ids)
    .where('leaseUntil', 'is', null)
    .where((row) => row.not(row('status', '<>', 'pending')))
  const ending = waiting.set({ ...ended, completedAt })
  if (webhook === undefined) return void (await ending.execute())
  await ending.where('stops', '<', webhook.stops).execute()
  const moved = waiting.where('url', '<>', webhook.callbackUrl)
  const told = coveredBy(await effectiveScopes(tx, webhook))
  await moved
    .set({ ...ended, completedAt })
    .where((row) => row.not(told(row as never)))
    .execute()
  await moved.set({ url: webhook.callbackUrl }).execute()
}

const ended = { status: 'failed', nextAttemptAt: null } as const

/** A call in flight is not retried if the scopes at the new address do not cover its event. There are few such calls. */
async function settleUnderWay(tx: Queryable, webhook: Webhook, completedAt: string): Promise<void> {
  const moved = tx
    .updateTable('deliveries')
    .where('lane', 'in', lanesOf(webhook.id))
    .where('leaseUntil', 'is not', null)
    .where('url', '<>', webhook.callbackUrl)
    .where((row) => row.not(row('status', '<>', 'pending')))
  const told = coveredBy(await effectiveScopes(tx, webhook))
  await moved
    .set({ ...ended, completedAt })
    .where((row) => row.not(told(row as never)))
    .execute()
  await moved.set({ url: webhook.callbackUrl }).execute()
}
