import type { Database, Queryable } from '../../db/open.ts'

/**
 * Ends waiting deliveries as failed, so that the log promises no further try. Those under way end by themselves: their
 * call may still succeed, and is the last one.
 */
export async function abandonDeliveries(
  tx: Queryable,
  which: { webhookId: string } | { deliveryId: string },
  instant: string,
): Promise<void> {
  const pending = tx
    .updateTable('deliveries')
    .set({ status: 'failed', nextAttemptAt: null, completedAt: instant })
    .where('status', '=', 'pending')
    .where('leaseUntil', 'is', null)
  const chosen =
    'webhookId' in which ? pending.where('webhookId', '=', which.webhookId) : pending.where('id', '=', which.deliveryId)
  await chosen.execute()
}

/** A registration's deliveries, newest first, each with every try made. */
export async function deliveryLog(db: Database, webhookId: string, limit: number) {
  const deliveries = await db.read
    .selectFrom('deliveries')
    .innerJoin('events', 'events.id', 'deliveries.eventId')
    .select(['deliveries.id', 'deliveries.eventId', 'events.type as event', 'deliveries.status'])
    .select(['deliveries.nextAttemptAt', 'deliveries.createdAt', 'deliveries.completedAt'])
    .where('deliveries.webhookId', '=', webhookId)
    .orderBy('deliveries.createdAt', 'desc')
    .orderBy('deliveries.id', 'desc')
    .limit(limit)
    .execute()
  const tries = await triesOf(
    db,
    deliveries.map(({ id }) => id),
  )
  return deliveries.map(({ nextAttemptAt, completedAt, ...delivery }) => ({
    ...delivery,
    ...(nextAttemptAt !== null && { nextAttemptAt }),
    ...(completedAt !== null && { completedAt }),
    attempts: tries.get(delivery.id) ?? [],
  }))
}

async function triesOf(db: Database, deliveryIds: string[]) {
  if (deliveryIds.length === 0) return new Map<string, never>()
  const rows = await db.read
    .selectFrom('attempts')
    .selectAll()
    .where('deliveryId', 'in', deliveryIds)
    .orderBy('attempt')
    .execute()
  const tries = rows.map(({ statusCode, error, responseStart, ...row }) => ({
    ...row,
    ...(statusCode !== null && { statusCode }),
    ...(error !== null && { error }),
    ...(responseStart !== null && { responseStart }),
  }))
  return Map.groupBy(tries, ({ deliveryId }) => deliveryId)
}
