import { type ExpressionBuilder, sql } from 'kysely'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Delivery, Tables } from '../../storage/tables/tables.ts'

/** Filters of a delivery list. */
interface Chosen {
  status?: Delivery['status'] | undefined
  event?: string | undefined
}

/** Deliveries of one webhook, to be ordered by `created_at` and `id`; forces the index that serves the filters. */
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

/** Delivered deliveries have no index of their own: every delivery would pay for it. */
function indexOf({ status, event }: Chosen): string {
  if (status === 'pending') return 'deliveries_pending'
  if (status === 'failed') return event === undefined ? 'deliveries_failed' : 'deliveries_failed_event'
  return event === undefined ? 'deliveries_webhook' : 'deliveries_event'
}

/** A condition on the status, phrased exactly as in the partial index. */
export const hasStatus = (status: Delivery['status']) => (row: ExpressionBuilder<Tables, 'deliveries'>) =>
  row('deliveries.status', '=', sql.lit(status))

/**
 * A condition on the event type. The index of pending deliveries, which are few, contains the type. `coalesce` of a column
 * that is never null equals the column but keeps the planner off other indexes.
 */
const isOf = (event: string, status: Chosen['status']) =>
  status === 'pending' ? sql<boolean>`coalesce(event_type, '') = ${event}` : sql<boolean>`event_type = ${event}`
