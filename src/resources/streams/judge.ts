import type { FastifyRequest } from 'fastify'
import { callerOf } from '../../http/policies/authenticate.ts'
import { malformedQuery } from '../../http/problems/problem.ts'
import type { RowId } from '../../storage/ids.ts'
import { caseFold, type Filter, isExact } from '../../storage/rows/page-query.ts'
import { type ColumnTest, passesAll, type RowTest } from '../../storage/rows/row-test.ts'
import { rowPasses } from '../conditions/conditions.ts'
import { type ConditionField, type ConditionFields, conditionFields } from '../conditions/fields.ts'
import { comparedValue } from '../conditions/values.ts'
import type { Declaration, Served } from '../declaration.ts'
import { type ListRules, parseListQuery, type Query } from '../list-parameters.ts'
import { grammarOf } from '../queries/grammar.ts'
import { alternativeRelations } from '../queries/read-query.ts'
import type { Facts, SubscriberKey } from './subscribers.ts'

/** Decides which rows a stream contains. */
export interface Judge {
  /** Judges with the same key make the same decisions if their streams belong to the same list. */
  key: string
  /** The id or the field value that all rows of the stream share; null if none is known. */
  only: { rowId: string } | SubscriberKey | null
  /** Returns true for a row that the caller can read. */
  isReadable: (row: Facts) => boolean
  /** Returns true for a row that the caller can read and that the stream's filters select. */
  contains: (row: Facts) => boolean
}

/**
 * Creates a judge: evaluates the access rules for the caller of a request, and the filters that depend on the current
 * day.
 */
export type JudgeNow = (request: FastifyRequest) => Promise<Judge>

type Holds = (row: Facts) => boolean

/** Returns the function that renames a collection row's fields as in the view; without a view, it changes nothing. */
const membersIn =
  ({ view }: Declaration): ((row: Facts) => Facts) =>
  (row) =>
    view ? view.toMembers(row) : row

const notOnStreams = 'cannot follow a relation on an event stream; use filters by fields of the resource'

/** Returns the function that creates the judge for a stream of one row. */
export const rowStreamJudge =
  (served: Served, id: RowId, expand: unknown): JudgeNow =>
  async (request) => {
    if (expand) throw malformedQuery('expand', notOnStreams)
    const { read, isReadable } = await readRule(served, request)
    const rowId = String(id)
    const contains = (row: Facts) => String(row.id) === rowId && isReadable(row)
    return { key: JSON.stringify(read), only: { rowId }, isReadable: contains, contains }
  }

/**
 * Returns the function that creates the judge for the stream of a list. `within` contains the filters of a nested list.
 * Throws INVALID_INPUT for an invalid filter, for `expand`, and for a filter that follows a relation.
 */
export function listJudge(served: Served, rules: ListRules, query: Query, within: readonly Filter[]): JudgeNow {
  const { declaration, listConditions } = served
  refuseRelations(query)
  const fields = conditionFields(rules as never, 'folded')
  const grammar = grammarOf(rules)
  const added = { collection: declaration.path, filters: within, related: [], reached: new Map() }
  const filtersNow = () => {
    const { listQuery } = parseListQuery({ ...query, sort: '', cursor: '' }, rules, grammar, added)
    return listConditions?.resolveQuery(listQuery) ?? listQuery
  }
  const fixed = declaration.computed.usesToday ? undefined : filtersNow()
  const toMembers = membersIn(declaration)
  const judgeOf = ({ read, isReadable, keys }: ReadRule, { filters, where = passesAll }: Filters): Judge => {
    const tests = [...filters.flatMap((filter) => testOf(filter, fields, declaration)), where]
    const searches = filters.flatMap((filter) => searchOf(filter))
    const holds: Holds = (row) => {
      const members = toMembers(row)
      return rowPasses({ all: tests }, members, { fields }) && searches.every((matches) => matches(members))
    }
    const ownOf = (member: string) => declaration.view?.ownOf(member) ?? member
    const [only = null] = [...keysOf({ all: tests }, fields, ownOf), ...keys]
    const key = JSON.stringify([read, tests, filters.filter(({ op }) => op === 'contains')])
    return { key, only, isReadable, contains: (row) => isReadable(row) && holds(row) }
  }
  const isConstant = fixed !== undefined && served.accessOf === undefined
  let constant: Judge | undefined
  return async (request) => {
    if (constant) return constant
    const judge = judgeOf(await readRule(served, request), fixed ?? filtersNow())
    if (isConstant) constant = judge
    return judge
  }
}

type Filters = Pick<ReturnType<typeof parseListQuery>['listQuery'], 'filters' | 'where'>

function refuseRelations(query: Query): void {
  const dotted = Object.keys(query).find((name) => name.includes('.') && query[name] !== undefined)
  const isAlong = typeof query.or === 'string' && alternativeRelations(query.or).size > 0
  const refused = query.expand ? 'expand' : (dotted ?? (isAlong ? 'or' : undefined))
  if (refused !== undefined) throw malformedQuery(refused, notOnStreams)
}

type ReadRule = Awaited<ReturnType<typeof readRule>>

/** Returns the test for the rows that a request's caller can read, and the field values that all of them share. */
async function readRule({ declaration, accessOf }: Served, request: FastifyRequest) {
  const read = accessOf ? (await accessOf(callerOf(request))).read : passesAll
  const access = (declaration.view?.collection ?? declaration).access
  const isReadable: Holds = (row) => access === undefined || read === passesAll || rowPasses(read, row, access)
  return { read, isReadable, keys: access ? keysOf(read, access.fields, (field) => field) : [] }
}

/** Converts a filter to a test; returns none for a search (`contains`), which `searchOf` handles. */
function testOf(filter: Filter, fields: ConditionFields, { folded }: Declaration): ColumnTest[] {
  if (filter.op === 'contains') return []
  const { on } = fields[filter.field] as ConditionField
  const { keyColumn: _, ...stored } = on
  const isFolded = folded.includes(filter.field) && !isExact(filter)
  const value = isFolded && filter.stored === undefined ? caseFold(String(filter.value)) : filter.value
  return [{ on: isFolded ? on : stored, op: filter.op, values: [value] }]
}

function searchOf(filter: Filter): Holds[] {
  if (filter.op !== 'contains') return []
  const text = caseFold(filter.value)
  return [(row) => filter.field.some((field) => caseFold(String(row[field] ?? '')).includes(text))]
}

/** Returns the fields in which all rows that pass a test have the same value, each with that value. */
function keysOf(test: RowTest, fields: ConditionFields, ownOf: (field: string) => string): SubscriberKey[] {
  if ('all' in test) return test.all.flatMap((part) => keysOf(part, fields, ownOf))
  if (!('on' in test) || test.op !== '=' || test.on.isWide) return []
  const { on, values } = test
  const [value] = values
  const field = fields[on.field]
  if (field === undefined || value === undefined) return []
  const own = ownOf(on.field)
  const valueIn = (row: Facts) => comparedValue(field, on, row[own])
  return [{ field: `${on.column} ${on.keyColumn ?? ''}`, valueIn, value }]
}
