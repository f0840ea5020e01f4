import type { Database, Queryable } from '../../db/database.ts'
import type { WorkTogether } from '../../queue/queue.ts'
import { armLanes, laneOf, testLaneOf } from './lanes.ts'

export interface SendSoonOptions {
  db: Database
  /** Told afterwards: there is something to send. */
  onAdded: () => void
}

/**
 * Work of `delivery.send`: deliveries that were made due by hand (a test, a redelivery, a replay) are given their lane,
 * which looks for them at once. It is a job so that every node that asks reaches one that sends.
 */
export const sendSoon = ({ db, onAdded }: SendSoonOptions): WorkTogether => {
  return async ({ payloads, finish }) => {
    const ids = (payloads as { deliveryId: string }[]).map(({ deliveryId }) => deliveryId)
    await db.write(async (tx) => {
      await finish(tx)
      await enterLanes(tx, db, ids)
    })
    onAdded()
  }
}

async function enterLanes(tx: Queryable, db: Database, ids: readonly string[]): Promise<void> {
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
    const lane = isTest === 1 && webhookId !== null ? testLaneOf(webhookId) : laneOf(row, row.ownerClient)
    await tx.updateTable('deliveries').set({ lane }).where('id', '=', id).execute()
    const at = nextAttemptAt ?? ''
    if (at < (due.get(lane) ?? '~')) due.set(lane, at)
  }
  await armLanes(tx, db, due)
}
