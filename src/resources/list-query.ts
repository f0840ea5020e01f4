import { type TObject, type TSchema, Type } from 'typebox'
import { instantFrom } from '../http/headers/instant.ts'
import {
  type Cursor,
  CursorText,
  decodeCursor,
  Fields,
  listFingerprint,
  PageLimit,
  pageSizeOf,
} from '../http/pagination.ts'
import { documentedRules } from '../http/partial-schema.ts'
import { malformedQuery } from '../http/problems/problem.ts'
import { maxId } from '../storage/ids.ts'
import { caseFold, type Filter, type ListQuery, orderOf, type Sort } from '../storage/rows/page-query.ts'
import type { Row } from '../storage/rows/rows.ts'
import { amended, type ColumnKind, columnType, instantParameter, kindOf, textParameter } from './column-types.ts'
import { isExactDecimal } from './decimal-fields.ts'

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

/** The query of a list, already validated against its schema. */
export interface Query {
  limit?: number
  cursor?: string
  sort?: string
  [name: string]: unknown
}

export const capital = (name: string) => `${name[0]?.toUpperCase()}${name.slice(1)}`

/** The query parameter for one end of a range: `minX`, `maxX` for numbers, `xAfter`, `xBefore` for dates and instants. */
interface Bound {
  name: string
  field: string
  op: '>=' | '<=' | '>' | '<'
  description: string
}

function boundsOf(field: string, schema: TSchema | undefined): Bound[] {
  const capitalized = capital(field)
  const kind = schema && kindOf(schema)
  if (kind && columnType(kind).range?.(schema) === 'numeric') {
    return [
      { name: `min${capitalized}`, field, op: '>=', description: `The minimum ${field}` },
      { name: `max${capitalized}`, field, op: '<=', description: `The maximum ${field}` },
    ]
  }
  // `updatedAt` becomes `updatedAfter`, not `updatedAtAfter`.
  const stem = field.replace(/(?<=.)(At|On)$/, '')
  return [
    { name: `${stem}After`, field, op: '>', description: `Only items whose ${field} is after this` },
    { name: `${stem}Before`, field, op: '<', description: `Only items whose ${field} is before this` },
  ]
}

const commonParameters = ['limit', 'cursor', 'sort', 'fields', 'q', 'updatedAfter']

/** The names of all query parameters of a list. */
export function queryNames(rules: Pick<ListRules, 'body'> & Partial<Pick<ListRules, 'filters' | 'ranges'>>): string[] {
  const { body, filters = [], ranges = [] } = rules
  const bounds = ranges.flatMap((field) => boundsOf(field, body.properties[field]).map(({ name }) => name))
  return [...commonParameters, ...filters, ...bounds]
}

/** The schema of the query parameter for a field. */
const parameterOf = (kind: ColumnKind | undefined, description: string, schema: TSchema | undefined): TSchema =>
  kind && schema ? columnType(kind).parameter(description, schema) : textParameter(description)

/** Fields with an optional minus sign. A pattern cannot say that each may occur only once. */
const sortPattern = (sorts: readonly string[]) => {
  const field = `-?(${sorts.join('|')})`
  return `^(${field}(,${field})*)?$`
}

/** The query parameters of a list. */
export function listQuerySchema({ body, kinds, filters, ranges, search, sorts }: ListRules): TObject {
  const [example = {}] = (body as { examples?: Record<string, unknown>[] }).examples ?? []
  const withExample = (schema: TSchema, field = '') =>
    Object.hasOwn(example, field) ? amended(schema, { examples: [example[field]] }) : schema
  const properties: Record<string, TSchema> = {
    limit: PageLimit,
    cursor: CursorText,
    sort: Type.Optional(
      Type.String({
        maxLength: 300,
        description: `Fields to sort by, comma-separated, with a leading minus sign for descending: ${sorts.join(', ')}`,
        examples: ['-createdAt'],
        ...documentedRules({ pattern: sortPattern(sorts), default: 'id' }),
      }),
    ),
    fields: Fields,
    ...(search.length > 0 && { q: withExample(textParameter(`Text to find in ${search.join(' or ')}`), search[0]) }),
    updatedAfter: instantParameter('Only items changed after this instant or date'),
  }
  for (const name of filters)
    properties[name] = withExample(
      parameterOf(kinds[name], `Only items with this ${name}`, body.properties[name]),
      name,
    )
  for (const field of ranges) {
    for (const { name, description } of boundsOf(field, body.properties[field])) {
      properties[name] = withExample(parameterOf(kinds[field], description, body.properties[field]), field)
    }
  }
  return Type.Object(properties)
}

/**
 * Parses the query of a list; `mark` binds its cursors to it. Throws INVALID_INPUT for invalid sorts, filters or cursors.
 */
export function parseListQuery(query: Query, rules: ListRules): { listQuery: ListQuery; mark: string } {
  const order = orderOf(sortOf(query.sort, rules.sorts))
  const filters = filtersOf(query, rules)
  const mark = listFingerprint([filters, order])
  const cursor = query.cursor ? decodeCursor(query.cursor, mark, order.length) : null
  if (cursor && !isValidPosition(cursor.after, order, rules)) throw malformedQuery('cursor', 'is not a valid cursor')
  const { after = null, backwards = false } = cursor ?? {}
  return { listQuery: { filters, order, after, backwards, limit: pageSizeOf(query.limit) }, mark }
}

/** The sort values of a row, for its cursor. */
export const cursorOf = (row: Row, order: readonly Sort[], { folded }: ListRules): Cursor['after'] =>
  order.map(({ field }) => {
    const value = row[field] as string | number
    return folded.includes(field) ? caseFold(String(value ?? '')) : value
  })

/** True if the values of a cursor have the types of their fields; other types would cause a database error. */
function isValidPosition(after: Cursor['after'], order: readonly Sort[], { kinds, body }: ListRules): boolean {
  return order.every(({ field }, at) => {
    const value = after[at]
    if (field === 'id') return Number.isInteger(value) && Math.abs(Number(value)) <= maxId
    if (kinds[field] === 'integer') return Number.isSafeInteger(value)
    if (kinds[field] === 'decimal') return isExactDecimal(value, body.properties[field] as TSchema)
    return typeof value === (kinds[field] === 'number' ? 'number' : 'string')
  })
}

function sortOf(sort: string | undefined, allowed: readonly string[]): Sort[] {
  if (!sort) return []
  const entries = sort.split(',').map((entry) => entry.trim())
  const fields = entries.map((entry) => ({ field: entry.replace(/^-/, ''), descending: entry.startsWith('-') }))
  const unknown = fields.find(({ field }) => !allowed.includes(field))
  if (unknown)
    throw malformedQuery('sort', `does not support '${unknown.field.slice(0, 40)}'; use one of ${allowed.join(', ')}`)
  if (new Set(fields.map(({ field }) => field)).size < fields.length)
    throw malformedQuery('sort', 'must name each field at most once')
  return fields
}

/** The filters of a query. Throws INVALID_INPUT for a value that is invalid for the field's column type. */
function filtersOf(query: Query, { body, kinds, filters, ranges, search }: ListRules): Filter[] {
  const conditions: Filter[] = []
  for (const field of filters) {
    const sent = query[field]
    if (sent !== undefined)
      conditions.push({ field, op: '=', value: parsed(field, String(sent), kinds[field], body.properties[field]) })
  }
  for (const range of ranges) {
    for (const { name, field, op } of boundsOf(range, body.properties[range])) {
      const sent = query[name]
      if (sent !== undefined)
        conditions.push({ field, op, value: parsed(name, String(sent), kinds[field], body.properties[field]) })
    }
  }
  if (query.q && search.length > 0) conditions.push({ field: search, op: 'contains', value: String(query.q) })
  const { updatedAfter } = query
  if (updatedAfter !== undefined) {
    conditions.push({ field: 'updatedAt', op: '>', value: instantFrom('updatedAfter', String(updatedAfter)) })
  }
  return conditions
}

const parsed = (name: string, text: string, kind: ColumnKind | undefined, schema: TSchema | undefined) =>
  kind && schema ? columnType(kind).parse(name, text, schema) : text
