import type { Queue, WorkTogether } from '../../queue/queue.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import { newOrderedId, type RandomBytes } from '../../storage/ids.ts'
import type { Webhook } from '../../storage/tables/tables.ts'
import { bodyFor } from '../dispatch/fan-out.ts'
import { endpointQueueId, scheduleEndpointQueues, testQueueId } from '../queue/endpoint-queue.ts'

/**
 * Makes deliveries due again. Their events and bodies stay the same, but they go to the webhook's current address, with
 * a full retry schedule.
 */
export async function makeDue(
  tx: Queryable,
  { callbackUrl, stops }: Webhook,
  ids: readonly string[],
  instant: string,
): Promise<void> {
  await tx
    .updateTable('deliveries')
    .set((row) => ({
      ...{ status: 'pending', url: callbackUrl, stops, nextAttemptAt: instant, completedAt: null, reason: null },
      ...{ round: row('round', '+', 1), triesBefore: row.ref('attempts') },
    }))
    .where('id', 'in', ids)
    .execute()
}

interface Test {
  type: string
  body: object
  /** The trace context of the request. */
  trace: string | null
}

/**
 * Adds a test delivery of an event: to this webhook only, with a single attempt, even if the webhook is not active.
 * Returns the delivery id.
 */
export async function addTest(
  tx: Queryable,
  { queue, random }: { queue: Queue; random: RandomBytes },
  { id: webhookId, callbackUrl: url, payloadStyle, ownerClient, ownerSubject, stops }: Webhook,
  { type, body, trace }: Test,
  createdAt: string,
): Promise<string> {
  const event = {
    id: newOrderedId('msg', random, createdAt),
    type,
    ownerClient,
    ownerSubject,
    body: JSON.stringify(body),
    trace,
    createdAt,
  }
  // Stored without a fan-out job, so that no other webhook receives the event.
  await tx
    .insertInto('events')
    .values({ ...event, callbackUrl: null, audience: null })
    .execute()
  const deliveryId = newOrderedId('dlv', random, createdAt)
  const target = { webhookId, ownerClient, ownerSubject, url, body: bodyFor(event, payloadStyle) }
  const state = { status: 'pending', attempts: 0, isTest: 1, nextAttemptAt: createdAt, completedAt: null } as const
  await tx
    .insertInto('deliveries')
    .values({
      id: deliveryId,
      eventId: event.id,
      eventType: type,
      stops,
      lane: testQueueId(webhookId),
      ...target,
      ...state,
      createdAt,
    })
    .execute()
  await queue.enqueue(tx, 'delivery.send', { deliveryId }, { trace })
  return deliveryId
}

export interface EnqueueManualOptions {
  db: Database
  /** Called after deliveries become due. */
  onAdded: () => void
}

/**
 * Handles `delivery.send` jobs: adds manually requested deliveries (tests and redeliveries) to their endpoint queues
 * and wakes the dispatcher. This is a job, because not every node that receives such requests sends webhooks.
 */
export const enqueueManual = ({ db, onAdded }: EnqueueManualOptions): WorkTogether => {
  return async ({ payloads, finish }) => {
    const ids = (payloads as { deliveryId: string }[]).map(({ deliveryId }) => deliveryId)
    await db.write(async (tx) => {
      await finish(tx)
      await addToQueues(tx, db, ids)
    })
    onAdded()
  }
}

async function addToQueues(tx: Queryable, db: Database, ids: readonly string[]): Promise<void> {
  const rows = await tx
    .selectFrom('deliveries')
    .innerJoin('events', 'events.id', 'deliveries.eventId')
    .select(['deliveries.id', 'webhookId', 'url', 'isTest', 'nextAttemptAt', 'events.ownerClient'])
    .where('deliveries.id', 'in', ids)
    .where('deliveries.status', '=', 'pending')
    .orderBy('deliveries.id')
    .execute()
  const due = new Map<string, string>()
  for (const row of rows) {
    const { id, webhookId, isTest, nextAttemptAt } = row
    const lane = isTest === 1 && webhookId !== null ? testQueueId(webhookId) : endpointQueueId(row, row.ownerClient)
    await tx.updateTable('deliveries').set({ lane }).where('id', '=', id).execute()
    const at = nextAttemptAt ?? ''
    if (at < (due.get(lane) ?? '~')) due.set(lane, at)
  }
  await scheduleEndpointQueues(tx, db, due)
}
