import type { Queryable } from '../../db/database.ts'
import { newOrderedId, type RandomBytes } from '../../db/ids.ts'
import type { Webhook } from '../../db/tables.ts'
import type { Queue } from '../../queue/queue.ts'
import { bodyFor } from './fan-out.ts'
import { testLaneOf } from './lanes.ts'

/** Makes deliveries of a registration due: the same event and bytes, to its present address, with all tries of the schedule. */
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
}

/** Sends an event to one registration alone, once, whether it is active or not; returns the id of the delivery. */
export async function addTest(
  tx: Queryable,
  { queue, random }: { queue: Queue; random: RandomBytes },
  { id: webhookId, callbackUrl: url, payloadStyle, ownerClient, ownerSubject, stops }: Webhook,
  { type, body }: Test,
  createdAt: string,
): Promise<string> {
  const event = {
    id: newOrderedId('msg', random, createdAt),
    type,
    ownerClient,
    ownerSubject,
    body: JSON.stringify(body),
    createdAt,
  }
  // No fan-out: nobody else is told.
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
      lane: testLaneOf(webhookId),
      ...target,
      ...state,
      createdAt,
    })
    .execute()
  await queue.enqueue(tx, 'delivery.send', { deliveryId })
  return deliveryId
}
