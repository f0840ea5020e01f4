import type { Database } from '../../db/database.ts'
import type { Webhook } from '../../db/tables.ts'
import type { Caller } from '../../http/identify.ts'
import { keysetPage, type PageQuery } from '../../http/keyset-page.ts'
import { visibleTo } from './registrations.ts'

/** One page of a caller's registrations, newest first, with the cursors of its neighbours. */
export const page = (db: Database, caller: Caller, query: PageQuery) =>
  keysetPage<Webhook>(query, 2, {
    of: 'webhooks',
    keyOf: ({ createdAt, id }) => [createdAt, id],
    rowsAfter: (after, backwards, count) => {
      const [order, beyond] = backwards ? (['asc', '>'] as const) : (['desc', '<'] as const)
      const [createdAt = '', id = ''] = (after ?? []).map(String)
      return db.read
        .selectFrom('webhooks')
        .selectAll()
        .where(visibleTo(caller))
        .$if(after !== null, (rows) =>
          rows.where(({ eb, refTuple, tuple }) => eb(refTuple('createdAt', 'id'), beyond, tuple(createdAt, id))),
        )
        .orderBy('createdAt', order)
        .orderBy('id', order)
        .limit(count)
        .execute()
    },
  })
