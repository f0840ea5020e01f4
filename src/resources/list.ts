import type { FastifyReply, FastifyRequest } from 'fastify'
import { type TObject, type TSchema, Type } from 'typebox'
import { fold } from '../db/fold.ts'
import type { ListQuery, Row, Rows, Sort } from '../db/rows.ts'
import { type Cursor, decodeCursor, encodeCursor, limitOf, linkHeader, listMark } from '../http/paging.ts'
import { Problem } from '../http/problem.ts'
import { noControls } from './text.ts'

/** What a list of a resource can be asked for. */
export interface ListRules {
  path: string
  body: TObject
  filters?: readonly string[]
  ranges?: readonly string[]
  search: readonly string[]
  folded?: readonly string[]
  sorts: readonly string[]
}

interface Query {
  limit?: number
  cursor?: string
  sort?: string
  [name: string]: unknown
}

export const capital = (name: string) => `${name[0]?.toUpperCase()}${name.slice(1)}`
const text = (description: string) => Type.Optional(Type.String({ maxLength: 300, pattern: noControls, description }))

/** The query parameters of a list. */
export function listQuerySchema({ filters = [], ranges = [], search, sorts }: ListRules): TObject {
  const properties: Record<string, TSchema> = {
    limit: Type.Optional(Type.Integer({ minimum: 1, description: 'Items on a page: 50 without it, 200 at most' })),
    cursor: Type.Optional(Type.String({ maxLength: 2_000, description: 'Where the page starts, from a Link header' })),
    sort: text(`Fields to sort by, descending with a minus sign: ${sorts.join(', ')}`),
    fields: Type.Optional(Type.String({ description: 'Names of the fields to return' })),
    q: text(`Text to find in ${search.join(' or ')}`),
    updatedAfter: Type.Optional(Type.String({ maxLength: 40, description: 'Only what changed after this instant' })),
  }
  for (const name of filters) properties[name] = text(`Only items with this ${name}`)
  for (const name of ranges) {
    for (const bound of ['min', 'max']) properties[bound + capital(name)] = text(`The ${bound}imum ${name}`)
  }
  return Type.Object(properties)
}

/** One page of a list, with its Link header; rows neither skip nor repeat while others are written. */
export async function listPage(
  rows: Rows,
  rules: ListRules,
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

const isFolded = (field: string, { search, folded = [] }: ListRules) => search.includes(field) || folded.includes(field)

const keyOf = (row: Row, sort: Sort[], rules: ListRules): Cursor['after'] => [
  ...sort.map(({ field }) => {
    const value = row[field] as string | number
    return isFolded(field, rules) ? fold(String(value)) : value
  }),
  row.id,
]

const largestId = 2_147_483_647

/** Whether the values of a cursor have the types of their fields: a foreign one would be an error of the database. */
function isPlace(after: Cursor['after'], sort: Sort[], { body }: ListRules): boolean {
  const fields = [...sort.map(({ field }) => field), 'id']
  return fields.every((field, at) => {
    if (field === 'id') return Number.isInteger(after[at]) && Math.abs(Number(after[at])) <= largestId
    const { type } = (body.properties[field] ?? {}) as { type?: string }
    return typeof after[at] === (type === 'number' ? 'number' : 'string')
  })
}

const malformed = (field: string, message: string) =>
  new Problem('INVALID_INPUT', 'The query is malformed', { errors: [{ field, message }] })

function sortOf(asked: string | undefined, allowed: readonly string[]): Sort[] {
  if (!asked) return []
  const sort = asked.split(',').map((entry) => entry.trim())
  const fields = sort.map((entry) => ({ field: entry.replace(/^-/, ''), descending: entry.startsWith('-') }))
  const unknown = fields.find(({ field }) => !allowed.includes(field))
  if (unknown) throw malformed('sort', `knows no field ${unknown.field.slice(0, 40)}, only ${allowed.join(', ')}`)
  if (new Set(fields.map(({ field }) => field)).size < fields.length) throw malformed('sort', 'names a field twice')
  const id = fields.findIndex(({ field }) => field === 'id')
  return id < 0 ? fields : fields.slice(0, id + 1)
}

function filtersOf(query: Query, { filters = [], ranges = [], search }: ListRules): ListQuery['filters'] {
  const wanted: ListQuery['filters'] = []
  for (const field of filters) {
    if (typeof query[field] === 'string') wanted.push({ field, op: '=', value: query[field] })
  }
  for (const field of ranges) {
    for (const [bound, op] of [
      ['min', '>='],
      ['max', '<='],
    ] as const) {
      const sent = query[bound + capital(field)]
      if (sent !== undefined) wanted.push({ field, op, value: numberOf(bound + capital(field), sent) })
    }
  }
  if (query.q) wanted.push({ field: search[0] as string, op: 'contains', value: String(query.q) })
  if (query.updatedAfter !== undefined) {
    const instant = isoInstant.test(String(query.updatedAfter)) ? Date.parse(String(query.updatedAfter)) : Number.NaN
    if (Number.isNaN(instant)) throw malformed('updatedAfter', 'must be an ISO 8601 instant')
    wanted.push({ field: 'updatedAt', op: '>', value: new Date(instant).toISOString() })
  }
  return wanted
}

/** A day, or a time with its offset (RFC 3339). */
const isoInstant = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/i

function numberOf(name: string, sent: unknown): number {
  const text = String(sent)
  if (!/^-?\d{1,12}(\.\d{1,6})?$/.test(text)) throw malformed(name, 'must be a decimal number')
  return Number(text)
}

/** `Prefer: count=exact` (RFC 7240) → the number of all matching rows. */
async function total(rows: Rows, filters: ListQuery['filters'], request: FastifyRequest, reply: FastifyReply) {
  if (!/(^|[,;\s])count=exact([,;\s]|$)/.test(String(request.headers.prefer ?? ''))) return
  reply.header('x-total-count', await rows.count(filters)).header('preference-applied', 'count=exact')
}
