import { instantParameter } from '../../http/headers/instant.ts'
import { keysetPage, type PageQuery } from '../../http/pagination.ts'
import type { Caller } from '../../http/policies/authenticate.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { EventAccess } from '../../queue/events.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import type { ScanRequester } from '../../storage/scans/scan.ts'
import type { Delivery, Webhook } from '../../storage/tables/tables.ts'
import { isOwner } from '../registrations.ts'
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

/** Finds one delivery of a webhook. Throws RESOURCE_NOT_FOUND if there is none. */
export async function findDelivery(tx: Queryable, webhookId: string, id: string) {
  const isWellFormed = /^dlv_[\w-]{1,50}$/.test(id)
  const found = isWellFormed ? await deliveriesOf(tx, webhookId).where('id', '=', id).execute() : []
  const [delivery] = await withAttempts(tx, found)
  if (delivery === undefined) throw new Problem('RESOURCE_NOT_FOUND', 'There is no such delivery')
  return delivery
}

type Shown = Awaited<ReturnType<typeof findDelivery>>

/**
 * Creates the function that prepares deliveries for a caller. Unless the caller owns the webhook, it removes the
 * receiver's responses, because they may repeat the event.
 */
export const shownTo = (caller: Caller, webhook: Webhook) => (delivery: Shown) =>
  isOwner(caller, webhook) ? delivery : { ...delivery, attempts: delivery.attempts.map(withoutResponse) }

const withoutResponse = ({ responseStart: _, responseHeaders: __, ...attempt }: Shown['attempts'][number]) => attempt

/**
 * Returns one delivery: with its request if it is a test or the caller may read the event now, otherwise as in lists.
 * Throws RESOURCE_NOT_FOUND.
 */
export async function deliveryDetails(
  tx: Queryable,
  access: EventAccess,
  caller: Caller,
  webhook: Webhook,
  id: string,
) {
  const delivery = await findDelivery(tx, webhook.id, id)
  const { eventId, event, test } = delivery
  if (!test && !(await mayReadEvent(tx, access, caller, webhook, eventId))) return shownTo(caller, webhook)(delivery)
  const sent = tx.selectFrom('deliveries').select(['url', 'body']).where('id', '=', id)
  const { url, body } = await sent.executeTakeFirstOrThrow()
  const headers = { 'content-type': 'application/json', 'webhook-id': eventId, 'webhook-event': event }
  return { ...delivery, request: { method: 'POST', url, headers, body } }
}

/**
 * Returns whether a caller may read an event. If only the webhook's owner receives the event, the owner may read it.
 * Otherwise, the caller needs the scope of the event's resource, and access rules must let the caller read the row.
 */
async function mayReadEvent(tx: Queryable, access: EventAccess, caller: Caller, webhook: Webhook, eventId: string) {
  const found = tx.selectFrom('events').select(['type', 'audience', 'facts']).where('id', '=', eventId)
  const event = await found.executeTakeFirst()
  if (event === undefined) return false
  const { type, audience, facts } = event
  if (audience === null) return isOwner(caller, webhook)
  if (audience !== 'any' && !caller.scopes.has(audience)) return false
  const reader = { ownerClient: caller.clientId, ownerSubject: caller.subject, scopes: [...caller.scopes].join(' ') }
  return !access.appliesTo(type) || access.judge()(reader, { type, facts })
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
  const attempts = rows.map(({ statusCode, error, responseStart, responseHeaders, ...row }) => ({
    ...row,
    ...(statusCode !== null && { statusCode }),
    ...(error !== null && { error }),
    ...(responseStart !== null && { responseStart }),
    ...(responseHeaders !== null && { responseHeaders: JSON.parse(responseHeaders) as Record<string, string> }),
  }))
  return Map.groupBy(attempts, ({ deliveryId }) => deliveryId)
}
