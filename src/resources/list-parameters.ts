import { type TObject, type TSchema, Type } from 'typebox'
import { instantFrom } from '../http/headers/instant.ts'
import { CursorText, decodeCursor, Fields, listFingerprint, PageLimit, pageSizeOf } from '../http/pagination.ts'
import { documentedRules } from '../http/partial-schema.ts'
import { malformedQuery } from '../http/problems/problem.ts'
import { totalOrder } from '../storage/rows/page-order.ts'
import type { Filter, ListQuery } from '../storage/rows/page-query.ts'
import { amended, type ColumnKind, columnType, instantQuery, textParameter } from './column-types.ts'
import { shownDeclaration } from './computed/options.ts'
import type { Relation, Served } from './declaration.ts'
import { boundsOf } from './queries/bounds.ts'
import { grammarOf, type QueryGrammar } from './queries/grammar.ts'
import { isValidPosition, namesOfOrder, type OrderRules, readSort, sortNames } from './queries/list-order.ts'
import { readComparisons } from './queries/read-query.ts'
import { type Reached, type RelatedFilter, relatedSchemas, restrictRelated } from './queries/related-filters.ts'
import { comparisonSchemas } from './queries/schemas.ts'
import { expandParameter } from './relations/expand.ts'

/** The parts of a declaration that determine the query parameters of its list. */
export interface ListRules extends OrderRules {
  path: string
  filters: readonly string[]
  ranges: readonly string[]
  search: readonly string[]
  blank: readonly string[]
  /** Relations that `expand` can name and that filters and sorts can follow; none by default. */
  relations?: readonly Relation[]
}

/** Returns the rules for a resource's list at a path; they also cover computed fields. */
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

/** Returns the schema of the query parameter for a field. */
const parameterOf = (kind: ColumnKind | undefined, description: string, schema: TSchema | undefined): TSchema =>
  kind && schema ? columnType(kind).parameter(description, schema) : textParameter(description)

/**
 * Returns a pattern for comma-separated fields, each with an optional minus sign. The pattern does not check that each
 * field occurs at most once.
 */
const sortPattern = (sorts: readonly string[]) => {
  const field = `-?(${sorts.map((name) => name.replace('.', '[.]')).join('|')})`
  return `^(${field}(,${field})*)?$`
}

/** Returns the schema of a list's query parameters. */
export function listQuerySchema(rules: ListRules): TObject {
  const { body, kinds, filters, ranges, search, relations = [] } = rules
  const sorts = sortNames(rules)
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
    ...relatedSchemas(grammar.related, Object.keys(properties)),
  })
}

/** The parts of a list's query that depend on its path and relations. */
interface Additions {
  /** The collection's path, without a version; a cursor is valid only for lists of this collection. */
  collection: string
  filters: readonly Filter[]
  related: readonly RelatedFilter[]
  /** The relations that the query follows, including those in `or` and `sort`. */
  reached: Reached
}

/**
 * Parses the query of a list and adds the given filters to it; `mark` binds cursors to this query. Throws INVALID_INPUT
 * for invalid sorts, filters or cursors.
 */
export function parseListQuery(
  query: Query,
  rules: ListRules,
  grammar: QueryGrammar,
  added: Additions,
): { listQuery: ListQuery; mark: string } {
  const order = totalOrder(readSort(query.sort, rules, added.reached))
  const { filters: compared, where } = readComparisons(query, grammar)
  const filters = [...added.filters, ...filtersOf(query, rules, grammar), ...compared]
  const related = added.related.map(({ step, test }) => [step.name, test])
  const mark = listFingerprint([added.collection, filters, namesOfOrder(order), ...(where ? [where] : []), ...related])
  const cursor = query.cursor ? decodeCursor(query.cursor, mark, order.length) : null
  if (cursor && !isValidPosition(cursor.after, order, rules)) throw malformedQuery('cursor', 'is not a valid cursor')
  const { after = null, backwards = false } = cursor ?? {}
  const limit = pageSizeOf(query.limit)
  const restricted = where && { where: restrictRelated(where, added.reached) }
  return { listQuery: { filters, ...restricted, order, after, backwards, limit }, mark }
}

/**
 * Returns the filters for equality, ranges, `q` and `updatedAfter`. Throws INVALID_INPUT for a value that is invalid
 * for the field's column type.
 */
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
