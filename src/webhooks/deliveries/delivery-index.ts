import { type ExpressionBuilder, sql } from 'kysely'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Delivery, Tables } from '../../storage/tables/tables.ts'

/** Filters for a delivery list. */
interface Chosen {
  status?: Delivery['status'] | undefined
  event?: string | undefined
}

/**
 * Selects from one webhook's deliveries, using the index that matches the filters. The caller orders by `created_at`
 * and `id`.
 */
export const deliveriesBy = (
  tx: Queryable,
  { engine }: Pick<Database, 'engine'>,
  webhookId: string,
  chosen: Chosen,
) => {
  const { status, event } = chosen
  const table = sql`deliveries`.as<'deliveries'>(sql`deliveries ${engine.indexedBy(indexOf(chosen))}`)
  return tx
    .selectFrom(table as unknown as 'deliveries')
    .where('webhookId', '=', webhookId)
    .$if(status !== undefined, (some) => some.where(hasStatus(status as Delivery['status'])))
    .$if(event !== undefined, (some) => some.where(isOf(event as string, status)))
}

/**
 * Returns the index to use. There is no index of successful deliveries, because maintaining it would slow down every
 * delivery.
 */
function indexOf({ status, event }: Chosen): string {
  if (status === 'pending') return 'deliveries_pending'
  if (status === 'failed') return event === undefined ? 'deliveries_failed' : 'deliveries_failed_event'
  return event === undefined ? 'deliveries_webhook' : 'deliveries_event'
}

/** Returns a status condition, written exactly as in the partial index, so that the planner can use the index. */
export const hasStatus = (status: Delivery['status']) => (row: ExpressionBuilder<Tables, 'deliveries'>) =>
  row('deliveries.status', '=', sql.lit(status))

/**
 * Returns a condition on the event type. Wrapping a column in `coalesce` does not change the result, but prevents the
 * planner from choosing an index on the column. The index of pending deliveries contains the type, and few deliveries
 * are pending.
 */
const isOf = (event: string, status: Chosen['status']) =>
  status === 'pending' ? sql<boolean>`coalesce(event_type, '') = ${event}` : sql<boolean>`event_type = ${event}`
