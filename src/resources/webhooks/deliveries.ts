import type { Queryable } from '../../db/open.ts'

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
