import { type ExpressionBuilder, sql } from 'kysely'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Delivery, Tables } from '../../storage/tables/tables.ts'

/** What deliveries of a registration are listed by. */
interface Chosen {
  status?: Delivery['status'] | undefined
  event?: string | undefined
}

/** Deliveries of one registration, in a list by `created_at` and `id`, read by the one index that serves both. */
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

/** Those that were delivered have no index of their own, which every delivery would pay for. */
function indexOf({ status, event }: Chosen): string {
  if (status === 'pending') return 'deliveries_pending'
  if (status === 'failed') return event === undefined ? 'deliveries_failed' : 'deliveries_failed_event'
  return event === undefined ? 'deliveries_webhook' : 'deliveries_event'
}

/** A condition on the state of deliveries, in the words of its partial index. */
export const hasStatus = (status: Delivery['status']) => (row: ExpressionBuilder<Tables, 'deliveries'>) =>
  row('deliveries.status', '=', sql.lit(status))

/**
 * A condition on the type. Those that wait are few at a time, and their index holds the type: `coalesce` of a column that is
 * never null is that column, but leads to no other index.
 */
const isOf = (event: string, status: Chosen['status']) =>
  status === 'pending' ? sql<boolean>`coalesce(event_type, '') = ${event}` : sql<boolean>`event_type = ${event}`
