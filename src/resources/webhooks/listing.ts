import type { Database } from '../../db/open.ts'
import type { Webhook } from '../../db/tables.ts'
import type { Caller } from '../../http/identify.ts'
import { decodeCursor, encodeCursor, limitOf, listMark } from '../../http/paging.ts'
import { visibleTo } from './registrations.ts'

interface Query {
  limit?: number
  cursor?: string
}

const mark = listMark('webhooks')

/** One page of a caller's registrations, newest first, with the cursors of its neighbours. */
export async function page(db: Database, caller: Caller, query: Query) {
  const limit = limitOf(query.limit)
  const cursor = query.cursor ? decodeCursor(query.cursor, mark, 2) : null
  const backwards = cursor?.backwards ?? false
  const found = await rowsAfter(db, caller, cursor?.after.map(String) ?? null, backwards, limit + 1)
  const more = found.length > limit
  const rows = backwards ? found.slice(0, limit).reverse() : found.slice(0, limit)
  const [first, last] = [rows[0], rows.at(-1)]
  const cursors = {
    ...(last && (backwards || more) && { next: cursorAt(last, false) }),
    ...(first && (backwards ? more : cursor !== null) && { prev: cursorAt(first, true) }),
  }
  return { rows, cursors }
}

const cursorAt = ({ createdAt, id }: Webhook, backwards: boolean): string =>
  encodeCursor(mark, { after: [createdAt, id], backwards })

function rowsAfter(db: Database, caller: Caller, after: string[] | null, backwards: boolean, count: number) {
  const [order, beyond] = backwards ? (['asc', '>'] as const) : (['desc', '<'] as const)
  const query = db.read.selectFrom('webhooks').selectAll().where(visibleTo(caller))
  const [createdAt = '', id = ''] = after ?? []
  const started =
    after === null
      ? query
      : query.where((row) =>
          row.or([
            row('createdAt', beyond, createdAt),
            row.and([row('createdAt', '=', createdAt), row('id', beyond, id)]),
          ]),
        )
  return started.orderBy('createdAt', order).orderBy('id', order).limit(count).execute()
}
