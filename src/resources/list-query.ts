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
import { amended, type ColumnKind, columnType, instantQuery, textParameter } from './column-types.ts'
import { shownDeclaration } from './computed/declare.ts'
import { isExactDecimal } from './decimal-fields.ts'
import type { Relation, Served } from './declaration.ts'
import { boundsOf } from './queries/bounds.ts'
import { grammarOf, type QueryGrammar } from './queries/grammar.ts'
import { readComparisons } from './queries/read-comparisons.ts'
import { type RelatedFilter, relatedFiltersOf, relatedSchemas } from './queries/related-filters.ts'
import { comparisonSchemas } from './queries/schemas.ts'
import { expandParameter } from './relations/expand.ts'

/** The parts of a declaration that determine the query parameters of its list. */
export interface ListRules {
  path: string
  body: TObject
  kinds: Readonly<Record<string, ColumnKind>>
  filters: readonly string[]
  ranges: readonly string[]
  search: readonly string[]
  folded: readonly string[]
  blank: readonly string[]
  sorts: readonly string[]
  /** What `expand` may name, and filters may follow; nothing by default. */
  relations?: readonly Relation[]
}

/** The rules of a resource's list at a path, which filters and sorts by computed fields too. */
export const listRulesOf = ({ declaration, relations }: Pick<Served, 'declaration' | 'relations'>, path: string) => ({
  ...shownDeclaration(declaration),
  ...{ path, relations },
})

/** The query of a list, already validated against its schema. */
export interface Query {
  limit?: number
  cursor?: string
  sort?: string
  expand?: string
  [name: string]: unknown
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
export function listQuerySchema(rules: ListRules): TObject {
  const { body, kinds, filters, ranges, search, sorts, relations = [] } = rules
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
    ...expandParameter(relations),
    ...(search.length > 0 && { q: withExample(textParameter(`Text to find in ${search.join(' or ')}`), search[0]) }),
    updatedAfter: instantQuery('Only items changed after this instant or date'),
  }
  const grammar = grammarOf(rules)
  for (const name of filters) {
    const several = grammar.lists.has(name) ? '; several values separated by commas' : ''
    const description = `Only items with this ${name}${several}`
    properties[name] = withExample(parameterOf(kinds[name], description, body.properties[name]), name)
  }
  for (const field of ranges) {
    for (const { name, description } of boundsOf(field, body.properties[field])) {
      properties[name] = withExample(parameterOf(kinds[field], description, body.properties[field]), field)
    }
  }
  Object.assign(properties, comparisonSchemas(grammar, example, Object.keys(properties)))
  return Type.Object({
    ...properties,
    ...relatedSchemas(relatedFiltersOf({ table: '' }, relations), Object.keys(properties)),
  })
}

/** What the place of a list and its relations add to its query. */
interface Additions {
  filters: readonly Filter[]
  related: readonly RelatedFilter[]
}

/**
 * Parses the query of a list, to which the added filters belong too; `mark` binds its cursors to it. Throws INVALID_INPUT
 * for invalid sorts, filters or cursors.
 */
export function parseListQuery(
  query: Query,
  rules: ListRules,
  grammar: QueryGrammar,
  added: Additions,
): { listQuery: ListQuery; mark: string } {
  const order = orderOf(sortOf(query.sort, rules.sorts))
  const { filters: compared, where } = readComparisons(query, grammar)
  const filters = [...added.filters, ...filtersOf(query, rules, grammar), ...compared]
  const related = added.related.map(({ step, test }) => [step.name, test])
  const mark = listFingerprint([filters, order, ...(where ? [where] : []), ...related])
  const cursor = query.cursor ? decodeCursor(query.cursor, mark, order.length) : null
  if (cursor && !isValidPosition(cursor.after, order, rules)) throw malformedQuery('cursor', 'is not a valid cursor')
  const { after = null, backwards = false } = cursor ?? {}
  const limit = pageSizeOf(query.limit)
  return { listQuery: { filters, ...(where && { where }), order, after, backwards, limit }, mark }
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
    if (kinds[field] === 'integer' || kinds[field] === 'reference') return Number.isSafeInteger(value)
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
function filtersOf(query: Query, rules: ListRules, { lists }: QueryGrammar): Filter[] {
  const { body, kinds, filters, ranges, search } = rules
  const conditions: Filter[] = []
  for (const field of filters) {
    const sent = query[field]
    const isList = lists.has(field) && String(sent).includes(',')
    if (sent !== undefined && !isList)
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
