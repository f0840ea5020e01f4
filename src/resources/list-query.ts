import { type TObject, type TSchema, Type } from 'typebox'
import { instantFrom } from '../http/headers/instant.ts'
import { type Cursor, CursorText, decodeCursor, Fields, listMark, PageLimit, pageSizeOf } from '../http/pagination.ts'
import { documentedRules } from '../http/partial-schema.ts'
import { malformedQuery } from '../http/problems/problem.ts'
import { maxId } from '../storage/ids.ts'
import { caseFold, type Filter, type ListQuery, orderOf, type Sort } from '../storage/rows/page-query.ts'
import type { Row } from '../storage/rows/rows.ts'
import { amended } from './amended.ts'
import { type ColumnKind, columnType, instantParameter, kindOf, textParameter } from './column-types.ts'

/** The parts of a declaration that determine the query parameters of its list. */
export interface ListRules {
  path: string
  body: TObject
  kinds: Readonly<Record<string, ColumnKind>>
  filters: readonly string[]
  ranges: readonly string[]
  search: readonly string[]
  folded: readonly string[]
  sorts: readonly string[]
}

/** The query of a list, validated by its schema. */
export interface Query {
  limit?: number
  cursor?: string
  sort?: string
  [name: string]: unknown
}

export const capital = (name: string) => `${name[0]?.toUpperCase()}${name.slice(1)}`

/** A bound of a range, as a query parameter: numbers have `minX` and `maxX`, dates and instants `xAfter` and `xBefore`. */
interface Bound {
  name: string
  field: string
  op: '>=' | '<=' | '>' | '<'
  about: string
}

function boundsOf(field: string, schema: TSchema | undefined): Bound[] {
  const capitalized = capital(field)
  const kind = schema && kindOf(schema)
  if (kind && columnType(kind).range?.(schema) === 'numeric') {
    return [
      { name: `min${capitalized}`, field, op: '>=', about: `The minimum ${field}` },
      { name: `max${capitalized}`, field, op: '<=', about: `The maximum ${field}` },
    ]
  }
  // `updatedAt` has `updatedAfter`, which reads better than `updatedAtAfter`.
  const stem = field.replace(/(?<=.)(At|On)$/, '')
  return [
    { name: `${stem}After`, field, op: '>', about: `Only items with ${field} after this` },
    { name: `${stem}Before`, field, op: '<', about: `Only items with ${field} before this` },
  ]
}

const ofEveryList = ['limit', 'cursor', 'sort', 'fields', 'q', 'updatedAfter']

/** The names of all query parameters of a list. */
export function queryNames(written: {
  body: TObject
  filters?: readonly string[]
  ranges?: readonly string[]
}): string[] {
  const { body, filters = [], ranges = [] } = written
  const bounds = ranges.flatMap((field) => boundsOf(field, body.properties[field]).map(({ name }) => name))
  return [...ofEveryList, ...filters, ...bounds]
}

/** The schema of the query parameter for a field. */
const parameterOf = (kind: ColumnKind | undefined, description: string): TSchema =>
  kind ? columnType(kind).parameter(description) : textParameter(description)

/** Fields, each with an optional minus sign. The pattern cannot express that each occurs once; the description does. */
const sortPattern = (sorts: readonly string[]) => {
  const field = `-?(${sorts.join('|')})`
  return `^(${field}(,${field})*)?$`
}

/** The query parameters of a list. */
export function listQuerySchema({ body, kinds, filters, ranges, search, sorts }: ListRules): TObject {
  const [example = {}] = (body as { examples?: Record<string, unknown>[] }).examples ?? []
  const shown = (schema: TSchema, field = '') =>
    Object.hasOwn(example, field) ? amended(schema, { examples: [example[field]] }) : schema
  const properties: Record<string, TSchema> = {
    limit: PageLimit,
    cursor: CursorText,
    sort: Type.Optional(
      Type.String({
        maxLength: 300,
        description: `Fields to sort by, each once, descending with a minus sign: ${sorts.join(', ')}`,
        examples: ['-createdAt'],
        ...documentedRules({ pattern: sortPattern(sorts), default: 'id' }),
      }),
    ),
    fields: Fields,
    ...(search.length > 0 && { q: shown(textParameter(`Text to find in ${search.join(' or ')}`), search[0]) }),
    updatedAfter: instantParameter('Only what changed after this instant, or this day'),
  }
  for (const name of filters) properties[name] = shown(parameterOf(kinds[name], `Only items with this ${name}`), name)
  for (const field of ranges) {
    for (const { name, about } of boundsOf(field, body.properties[field])) {
      properties[name] = shown(parameterOf(kinds[field], about), field)
    }
  }
  return Type.Object(properties)
}

/**
 * Parses the query of a list; `mark` binds its cursors to this list. Throws INVALID_INPUT for unsupported sorts or filters.
 */
export function parseListQuery(query: Query, rules: ListRules): { asked: ListQuery; mark: string } {
  const order = orderOf(sortOf(query.sort, rules.sorts))
  const filters = filtersOf(query, rules)
  const mark = listMark([filters, order])
  const cursor = query.cursor ? decodeCursor(query.cursor, mark, order.length) : null
  if (cursor && !isPlace(cursor.after, order, rules)) throw malformedQuery('cursor', 'is not one of our cursors')
  const { after = null, backwards = false } = cursor ?? {}
  return { asked: { filters, order, after, backwards, limit: pageSizeOf(query.limit) }, mark }
}

/** The sort values of a row, for its cursor. */
export const cursorOf = (row: Row, order: readonly Sort[], { folded }: ListRules): Cursor['after'] =>
  order.map(({ field }) => {
    const value = row[field] as string | number
    return folded.includes(field) ? caseFold(String(value ?? '')) : value
  })

/** Whether the cursor's values have the types of their fields: other types would cause a database error. */
function isPlace(after: Cursor['after'], order: readonly Sort[], { kinds }: ListRules): boolean {
  return order.every(({ field }, at) => {
    const value = after[at]
    if (field === 'id') return Number.isInteger(value) && Math.abs(Number(value)) <= maxId
    if (kinds[field] === 'integer') return Number.isSafeInteger(value)
    return typeof value === (kinds[field] === 'number' ? 'number' : 'string')
  })
}

function sortOf(asked: string | undefined, allowed: readonly string[]): Sort[] {
  if (!asked) return []
  const sort = asked.split(',').map((entry) => entry.trim())
  const fields = sort.map((entry) => ({ field: entry.replace(/^-/, ''), descending: entry.startsWith('-') }))
  const unknown = fields.find(({ field }) => !allowed.includes(field))
  if (unknown) throw malformedQuery('sort', `knows no field ${unknown.field.slice(0, 40)}, only ${allowed.join(', ')}`)
  if (new Set(fields.map(({ field }) => field)).size < fields.length)
    throw malformedQuery('sort', 'names a field twice')
  return fields
}

/** The filters of a query. Throws INVALID_INPUT for a value that is invalid for the field's kind. */
function filtersOf(query: Query, { body, kinds, filters, ranges, search }: ListRules): Filter[] {
  const wanted: Filter[] = []
  for (const field of filters) {
    const sent = query[field]
    if (sent !== undefined) wanted.push({ field, op: '=', value: parsed(field, String(sent), kinds[field]) })
  }
  for (const range of ranges) {
    for (const { name, field, op } of boundsOf(range, body.properties[range])) {
      const sent = query[name]
      if (sent !== undefined) wanted.push({ field, op, value: parsed(name, String(sent), kinds[field]) })
    }
  }
  if (query.q && search.length > 0) wanted.push({ field: search, op: 'contains', value: String(query.q) })
  const { updatedAfter } = query
  if (updatedAfter !== undefined) {
    wanted.push({ field: 'updatedAt', op: '>', value: instantFrom('updatedAfter', String(updatedAfter)) })
  }
  return wanted
}

const parsed = (name: string, text: string, kind: ColumnKind | undefined): string | number =>
  kind ? columnType(kind).parse(name, text) : text
