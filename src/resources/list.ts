import type { FastifyReply, FastifyRequest } from 'fastify'
import { fold } from '../db/fold.ts'
import type { ListQuery, Sort } from '../db/list.ts'
import type { Row, Rows } from '../db/rows.ts'
import { type Cursor, decodeCursor, encodeCursor, limitOf, linkHeader, listMark } from '../http/paging.ts'
import { filtersOf, type ListRules, malformed, type Query, sortOf } from './list-query.ts'

/** A list under one prefix. */
interface List extends ListRules {
  path: string
  folded: readonly string[]
}

/** One page of a list, with its Link header; rows neither skip nor repeat while others are written. */
export async function listPage(
  rows: Rows,
  rules: List,
  request: FastifyRequest,
  reply: FastifyReply,
  show: (row: Row) => object,
): Promise<object[]> {
  const query = request.query as Query
  const sort = sortOf(query.sort, rules.sorts)
  const filters = filtersOf(query, rules)
  const mark = listMark([filters, sort])
  const cursor = query.cursor ? decodeCursor(query.cursor, mark, sort.length + 1) : null
  if (cursor && !isPlace(cursor.after, sort, rules)) throw malformed('cursor', 'is not one of our cursors')
  const limit = limitOf(query.limit)
  const backwards = cursor?.backwards ?? false
  const found = await rows.list({ filters, sort, after: cursor?.after ?? null, backwards, limit: limit + 1 })
  const more = found.length > limit
  const page = more ? (backwards ? found.slice(1) : found.slice(0, limit)) : found
  const key = (row: Row) => keyOf(row, sort, rules)
  const cursors = pageCursors(page, { more, backwards, started: cursor !== null }, (at) => encodeCursor(mark, at), key)
  reply.header('link', linkHeader(rules.path, query, cursors))
  await total(rows, filters, request, reply)
  return page.map(show)
}

type Place = { more: boolean; backwards: boolean; started: boolean }

function pageCursors(
  page: Row[],
  place: Place,
  encode: (cursor: Cursor) => string,
  key: (row: Row) => Cursor['after'],
) {
  const [first, last] = [page[0], page.at(-1)]
  const hasNext = place.backwards || place.more
  const hasPrev = place.backwards ? place.more : place.started
  return {
    ...(hasNext && last && { next: encode({ after: key(last), backwards: false }) }),
    ...(hasPrev && first && { prev: encode({ after: key(first), backwards: true }) }),
  }
}

const keyOf = (row: Row, sort: Sort[], { folded }: List): Cursor['after'] => [
  ...sort.map(({ field }) => {
    const value = row[field] as string | number
    return folded.includes(field) ? fold(String(value)) : value
  }),
  row.id,
]

const largestId = 2_147_483_647

/** Whether the values of a cursor have the types of their fields: a foreign one would be an error of the database. */
function isPlace(after: Cursor['after'], sort: Sort[], { kinds }: List): boolean {
  const fields = [...sort.map(({ field }) => field), 'id']
  return fields.every((field, at) => {
    const value = after[at]
    if (field === 'id') return Number.isInteger(value) && Math.abs(Number(value)) <= largestId
    if (kinds[field] === 'integer') return Number.isSafeInteger(value)
    return typeof value === (kinds[field] === 'number' ? 'number' : 'string')
  })
}

/** `Prefer: count=exact` (RFC 7240) → the number of all matching rows. */
async function total(rows: Rows, filters: ListQuery['filters'], request: FastifyRequest, reply: FastifyReply) {
  if (!/(^|[,;\s])count=exact([,;\s]|$)/.test(String(request.headers.prefer ?? ''))) return
  reply.header('x-total-count', await rows.count(filters)).header('preference-applied', 'count=exact')
}
