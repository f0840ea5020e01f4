import type { Queryable } from '../../db/open.ts'

/** Ends pending deliveries as failed, so that the log promises no further try; a call under way may still succeed. */
export async function abandonDeliveries(
  tx: Queryable,
  which: { webhookId: string } | { deliveryId: string },
  instant: string,
): Promise<void> {
  const pending = tx
    .updateTable('deliveries')
    .set({ status: 'failed', nextAttemptAt: null, completedAt: instant })
    .where('status', '=', 'pending')
  const chosen =
    'webhookId' in which ? pending.where('webhookId', '=', which.webhookId) : pending.where('id', '=', which.deliveryId)
  await chosen.execute()
}
