import { instantParameter } from '../../http/headers/instant.ts'
import { keysetPage, type PageQuery } from '../../http/pagination.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import type { ScanRequester } from '../../storage/scans/scan.ts'
import type { Delivery } from '../../storage/tables/tables.ts'
import { deliveriesBy } from './delivery-index.ts'

/** Query parameters for a delivery log. */
export interface LogQuery extends PageQuery {
  status?: string
  event?: string
  since?: string
  until?: string
  sort?: string
}

/**
 * Returns one page of a webhook's deliveries with their attempts, newest first by default. There is no index of
 * successful deliveries: if only a few deliveries were successful, a query for them scans all of the webhook's
 * deliveries.
 */
export async function deliveryLog(db: Database, webhookId: string, query: LogQuery, requester: ScanRequester) {
  const { status, event, sort = '-createdAt' } = query
  const [since, until] = [instantParameter('since', query.since), instantParameter('until', query.until)]
  const { rows, cursors } = await keysetPage<Row>(query, 2, {
    of: ['deliveries', webhookId, status, event, since, until, sort],
    keyOf: ({ createdAt, id }) => [createdAt, id],
    rowsAfter: (after, backwards, count) => {
      const isDown = (sort === '-createdAt') !== backwards
      const [order, beyond] = isDown ? (['desc', '<'] as const) : (['asc', '>'] as const)
      const [createdAt = '', id = ''] = (after ?? []).map(String)
      const page = deliveriesBy(db.read, db, webhookId, { status: status as Delivery['status'], event })
        .select(viewColumns)
        .$if(since !== undefined, (some) => some.where('createdAt', '>=', since as string))
        .$if(until !== undefined, (some) => some.where('createdAt', '<', until as string))
        .$if(after !== null, (some) =>
          some.where(({ eb, refTuple, tuple }) => eb(refTuple('createdAt', 'id'), beyond, tuple(createdAt, id))),
        )
        .orderBy('createdAt', order)
        .orderBy('id', order)
        .limit(count)
      if (status !== 'delivered') return page.execute()
      return db.scan(page.where(db.engine.interruptible('deliveries')), requester)
    },
  })
  return { deliveries: await withAttempts(db.read, rows), cursors }
}

/** Finds one delivery of a webhook. Throws RESOURCE_NOT_FOUND. */
export async function findDelivery(tx: Queryable, webhookId: string, id: string) {
  const isWellFormed = /^dlv_[\w-]{1,50}$/.test(id)
  const found = isWellFormed ? await deliveriesOf(tx, webhookId).where('id', '=', id).execute() : []
  const [delivery] = await withAttempts(tx, found)
  if (delivery === undefined) throw new Problem('RESOURCE_NOT_FOUND', 'There is no such delivery')
  return delivery
}

type Row = Awaited<ReturnType<ReturnType<typeof deliveriesOf>['execute']>>[number]

const viewColumns = [
  ...(['id', 'eventId', 'eventType as event', 'status', 'isTest'] as const),
  ...(['nextAttemptAt', 'createdAt', 'completedAt', 'reason'] as const),
] as const

const deliveriesOf = (tx: Queryable, webhookId: string) =>
  tx.selectFrom('deliveries').select(viewColumns).where('webhookId', '=', webhookId)

async function withAttempts(tx: Queryable, deliveries: Row[]) {
  const ids = deliveries.map(({ id }) => id)
  const attempts = ids.length === 0 ? new Map<string, never>() : await attemptsOf(tx, ids)
  return deliveries.map(({ isTest, nextAttemptAt, completedAt, reason, ...delivery }) => ({
    ...delivery,
    ...(isTest === 1 && { test: true }),
    ...(nextAttemptAt !== null && { nextAttemptAt }),
    ...(completedAt !== null && { completedAt }),
    ...(reason !== null && { reason }),
    attempts: attempts.get(delivery.id) ?? [],
  }))
}

async function attemptsOf(tx: Queryable, deliveryIds: string[]) {
  const rows = await tx
    .selectFrom('attempts')
    .selectAll()
    .where('deliveryId', 'in', deliveryIds)
    .orderBy('attempt')
    .execute()
  const attempts = rows.map(({ statusCode, error, responseStart, ...row }) => ({
    ...row,
    ...(statusCode !== null && { statusCode }),
    ...(error !== null && { error }),
    ...(responseStart !== null && { responseStart }),
  }))
  return Map.groupBy(attempts, ({ deliveryId }) => deliveryId)
}
