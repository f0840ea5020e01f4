import { type Static, Type } from 'typebox'
import { CursorText, Fields, keysetPage, PageLimit, pageSize } from '../http/pagination.ts'
import type { Caller } from '../http/policies/authenticate.ts'
import type { Database } from '../storage/database.ts'
import type { ScanRequester } from '../storage/scans/scan.ts'
import type { Webhook } from '../storage/tables/tables.ts'
import { visibleTo } from './registrations.ts'

const only = (description: string, example: string) =>
  Type.Optional(Type.String({ maxLength: 100, description, examples: [example] }))

/** Query parameters of the list of webhooks. */
export const WebhookListQuery = Type.Object({
  limit: PageLimit,
  cursor: CursorText,
  status: Type.Optional(
    Type.String({
      enum: ['active', 'paused', 'disabled', 'failing'],
      description: 'Only webhooks in this state; `failing` means active with failed calls since the last success',
    }),
  ),
  event: only('Only webhooks registered for exactly this event type or pattern', 'report.completed'),
  ownerClient: only('Only webhooks of this client', 'cli_Q2hhcmxlcyBCYWJiYWdlXw'),
  ownerSubject: only('Only webhooks of this subject', '42'),
  fields: Fields,
})

/**
 * Returns one page of the webhooks that a caller can see, newest first, with the cursors of the adjacent pages. A query
 * with filters may read all of these webhooks, because no index supports both the filters and the order.
 */
export const listPage = (
  db: Database,
  caller: Caller,
  query: Static<typeof WebhookListQuery>,
  requester: ScanRequester,
) => {
  const { status, event, ownerClient, ownerSubject } = query
  const filters = [status, event, ownerClient, ownerSubject]
  const stored = (status === 'failing' ? 'active' : status) as Webhook['status'] | undefined
  return keysetPage<Webhook>(query, 2, {
    of: ['webhooks', ...filters],
    keyOf: ({ createdAt, id }) => [createdAt, id],
    rowsAfter: (after, backwards, count) => {
      const [order, beyond] = backwards ? (['asc', '>'] as const) : (['desc', '<'] as const)
      const [createdAt = '', id = ''] = (after ?? []).map(String)
      const page = db.read
        .selectFrom('webhooks')
        .selectAll()
        .where(visibleTo(caller))
        .$if(stored !== undefined, (rows) => rows.where('status', '=', stored as Webhook['status']))
        .$if(status === 'failing', (rows) => rows.where('failingSince', 'is not', null))
        .$if(event !== undefined, (rows) => rows.where('event', '=', event as string))
        .$if(ownerClient !== undefined, (rows) => rows.where('ownerClient', '=', ownerClient as string))
        .$if(ownerSubject !== undefined, (rows) => rows.where('ownerSubject', '=', ownerSubject as string))
        .$if(after !== null, (rows) =>
          rows.where(({ eb, refTuple, tuple }) => eb(refTuple('createdAt', 'id'), beyond, tuple(createdAt, id))),
        )
        .orderBy('createdAt', order)
        .orderBy('id', order)
        .limit(count)
      if (filters.every((filter) => filter === undefined)) return page.execute()
      return db.scan(page.where(db.engine.interruptible('webhooks')), requester)
    },
  })
}

/**
 * Returns the webhooks with these ids that the caller can see, newest first. Without ids, returns the newest
 * `pageSize.default` webhooks that the caller can see.
 */
export const webhooksAmong = (db: Database, caller: Caller, ids: readonly string[] | undefined) =>
  db.read
    .selectFrom('webhooks')
    .select(['id', 'failingSince'])
    .where(visibleTo(caller))
    .$if(ids !== undefined, (rows) => rows.where('id', 'in', ids ?? []))
    .orderBy('createdAt', 'desc')
    .orderBy('id', 'desc')
    .limit(ids?.length ?? pageSize.default)
    .execute()
