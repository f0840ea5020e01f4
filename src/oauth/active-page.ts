import { keysetPage, type PageQuery } from '../http/pagination.ts'
import type { Database } from '../storage/database.ts'

interface Listed {
  id: string
  createdAt: string
}

/**
 * Returns one page of unrevoked clients or API keys, newest first. A cursor is valid only for calls with the same `of`.
 */
export function unrevokedPage<Row extends Listed>(
  db: Database,
  table: 'clients' | 'apiKeys',
  of: string,
  query: PageQuery,
) {
  return keysetPage<Row>(query, 2, {
    of,
    keyOf: ({ createdAt, id }) => [createdAt, id],
    rowsAfter: async (after, backwards, count) => {
      const [order, beyond] = backwards ? (['asc', '>'] as const) : (['desc', '<'] as const)
      const [createdAt = '', id = ''] = (after ?? []).map(String)
      const rows = await db.read
        // The query uses only columns that both tables have, so the type of `clients` also fits API keys.
        .selectFrom(table as 'clients')
        .selectAll()
        .where('revokedAt', 'is', null)
        .$if(after !== null, (page) =>
          page.where(({ eb, refTuple, tuple }) => eb(refTuple('createdAt', 'id'), beyond, tuple(createdAt, id))),
        )
        .orderBy('createdAt', order)
        .orderBy('id', order)
        .limit(count)
        .execute()
      return rows as unknown as Row[]
    },
  })
}
