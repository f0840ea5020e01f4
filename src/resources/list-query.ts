import { type TObject, type TSchema, Type } from 'typebox'
import { fold } from '../db/fold.ts'
import { type Filter, type ListQuery, orderOf, type Sort } from '../db/page.ts'
import type { Row } from '../db/rows.ts'
import { judged } from '../http/judged.ts'
import { type Cursor, decodeCursor, Limit, limitOf, listMark } from '../http/paging.ts'
import { Problem } from '../http/problem.ts'
import { Line } from './text.ts'

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

export interface Query {
  limit?: number
  cursor?: string
  sort?: string
  [name: string]: unknown
}

export const capital = (name: string) => `${name[0]?.toUpperCase()}${name.slice(1)}`
const text = (description: string) => Type.Optional(Line(0, 300, { description }))

/** Fields, each once, each with or without a minus sign. */
const sortPattern = (sorts: readonly string[]) => {
  const field = `-?(${sorts.join('|')})`
  return `^(?!.*\\b(\\w+)\\b.*\\b\\1\\b)(${field}(,${field})*)?$`
}

/** The query parameters of a list. */
export function listQuerySchema({ filters = [], ranges = [], search, sorts }: ListRules): TObject {
  const properties: Record<string, TSchema> = {
    limit: Limit,
    cursor: Type.Optional(Type.String({ maxLength: 2_000, description: 'Where the page starts, from a Link header' })),
    sort: Type.Optional(
      Type.String({
        maxLength: 300,
        description: `Fields to sort by, descending with a minus sign: ${sorts.join(', ')}`,
        ...judged({ pattern: sortPattern(sorts) }),
      }),
    ),
    fields: Type.Optional(Type.String({ description: 'Names of the fields to return' })),
    q: text(`Text to find in ${search.join(' or ')}`),
    updatedAfter: Type.Optional(
      Type.String({
        maxLength: 40,
        description: 'Only what changed after this instant, or this day',
        ...judged({ format: 'date-time' }),
      }),
    ),
  }
  for (const name of filters) properties[name] = text(`Only items with this ${name}`)
  for (const name of ranges) {
    for (const bound of ['min', 'max']) {
      properties[bound + capital(name)] = Type.Optional(Type.Number({ description: `The ${bound}imum ${name}` }))
    }
  }
  return Type.Object(properties)
}

/** What a request asks of a list, and the mark its cursors carry; throws INVALID_INPUT for what is not offered. */
export function askedOf(query: Query, rules: ListRules): { asked: ListQuery; mark: string } {
  const order = orderOf(sortOf(query.sort, rules.sorts))
  const filters = filtersOf(query, rules)
  const mark = listMark([filters, order])
  const cursor = query.cursor ? decodeCursor(query.cursor, mark, order.length) : null
  if (cursor && !isPlace(cursor.after, order, rules)) throw malformed('cursor', 'is not one of our cursors')
  const { after = null, backwards = false } = cursor ?? {}
  return { asked: { filters, order, after, backwards, limit: limitOf(query.limit) }, mark }
}

const isFolded = (field: string, { search, folded = [] }: ListRules) => search.includes(field) || folded.includes(field)

/** The values that place a row in an order. */
export const placeOf = (row: Row, order: readonly Sort[], rules: ListRules): Cursor['after'] =>
  order.map(({ field }) => {
    const value = row[field] as string | number
    return isFolded(field, rules) ? fold(String(value)) : value
  })

const largestId = 2_147_483_647

/** Whether the values of a cursor have the types of their fields: a foreign one would be an error of the database. */
function isPlace(after: Cursor['after'], order: readonly Sort[], { body }: ListRules): boolean {
  return order.every(({ field }, at) => {
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
  return fields
}

function filtersOf(query: Query, { filters = [], ranges = [], search }: ListRules): Filter[] {
  const wanted: Filter[] = []
  for (const field of filters) {
    if (typeof query[field] === 'string') wanted.push({ field, op: '=', value: query[field] })
  }
  for (const field of ranges) {
    for (const [bound, op] of [
      ['min', '>='],
      ['max', '<='],
    ] as const) {
      const sent = query[bound + capital(field)]
      if (sent !== undefined) wanted.push({ field, op, value: Number(sent) })
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
