import { type Compilable, CompiledQuery } from 'kysely'
import type { Database, PreparedStatement } from '../database.ts'
import type { RowId } from '../ids.ts'
import type { ScanRequester } from '../scans/scan.ts'
import { keyColumnOfField } from './column-names.ts'
import { relatedJoins } from './page-order.ts'
import {
  caseFold,
  countSql,
  type Filter,
  isExact,
  isRange,
  type ListQuery,
  type PageSource,
  type Plan,
  pageSql,
  type ScanPlan,
  valuesOf,
} from './page-query.ts'
import { testSql } from './row-test.ts'

/** A row's id and revision. A page is unchanged if all of its marks are unchanged. */
export interface Mark {
  id: RowId
  revision: number
}

/** Returns the account that requests a read; called only if the read must wait in a queue. */
export type RequesterOf = () => ScanRequester

/**
 * Reads lists from a table. An index-bounded page costs the same wherever it starts, and is read immediately. All other
 * pages, and all counts, are scans (`Database.scan`).
 */
export interface Lists<Row> {
  page: (query: ListQuery, requesterOf: RequesterOf) => Row[] | Promise<Row[]>
  /** Returns only the ids and revisions of a page's rows, at a third of the cost of `page`. */
  marks: (query: ListQuery, requesterOf: RequesterOf) => Mark[] | Promise<Mark[]>
  count: (rows: ListSelection, requesterOf: RequesterOf) => Promise<number>
  changes: Database['changes']
}

/** The rows that a list selects, regardless of their order. */
export type ListSelection = Pick<ListQuery, 'filters' | 'where'>

interface Statement {
  prepared: PreparedStatement<unknown>
  /** For each parameter of the statement, the index of its value in the result of `valuesOf`. */
  positions: readonly number[]
}

type Run = (query: ListQuery, requesterOf: RequesterOf) => unknown[] | Promise<unknown[]>

/** More than the usual queries need. Limited, because PostgreSQL keeps each statement prepared. */
const maxShapes = 200
/** Sorting this many index entries takes one or two milliseconds. */
const fewRows = 20_000
const allRows = 2_147_483_647

/**
 * Returns the functions that read lists from a table; pages contain the `listed` fields. For index-bounded pages, up to
 * 200 combinations of filters, order and paging are compiled once; any others are compiled each time.
 */
export function listsOf<Row>(db: Database, source: PageSource, listed: readonly string[]): Lists<Row> {
  const count = counter(db, source)
  const reader = (columns: readonly string[]): Run => {
    const [read, scan] = [boundedReader(db, source, columns), scanReader(db, source, columns, count)]
    return (query, requesterOf) => (isBounded(query) ? read(query) : scan(query, requesterOf))
  }
  return {
    page: reader(listed) as Lists<Row>['page'],
    marks: reader(['id', 'revision']) as Lists<Row>['marks'],
    count: (rows, requesterOf) => count(rows, allRows, requesterOf()),
    changes: db.changes,
  }
}

/**
 * Returns true if an index contains the page's rows contiguously and in order: all rows ordered by one field, or the
 * rows with a given value of one field, ordered by id. Every field used to filter or sort has an index that ends with
 * the id (`resource-tables/ddl.ts`).
 */
export function isBounded({ filters, where, order }: ListQuery): boolean {
  if (where !== undefined || order.some(({ along }) => along !== undefined)) return false
  const [filter] = filters
  if (filter !== undefined) return filters.length === 1 && filter.op === '=' && order[0]?.field === 'id'
  return (
    order.length === 1 ||
    (order.length === 2 && order[0]?.descending === order[1]?.descending && order[1]?.field === 'id')
  )
}

function boundedReader(db: Database, source: PageSource, columns: readonly string[]) {
  const statements = new Map<string, Statement>()
  const plain = db.read.withoutPlugins()
  return (query: ListQuery): unknown[] | Promise<unknown[]> => {
    const shape = planKey(query)
    const values = valuesOf(query, source)
    const statement = statements.get(shape)
    if (statement) return statement.prepared.all(statement.positions.map((position) => values[position]))
    const compiled = pageSql(columns, query, source).compile(plain)
    const positions = compiled.parameters as number[]
    const bound = positions.map((position) => values[position])
    if (statements.size >= maxShapes) {
      return plain.executeQuery(CompiledQuery.raw(compiled.sql, bound)).then(({ rows }) => rows)
    }
    const prepared = db.prepare<unknown>({ compile: () => compiled })
    statements.set(shape, { prepared, positions })
    return prepared.all(bound)
  }
}

/** Returns the cache key of a page's statement. It depends on everything in the query except the values. */
function planKey({ filters, order, after, backwards }: ListQuery): string {
  let key = `${backwards} ${after !== null}`
  for (const filter of filters) key += ` ${filter.field}${filter.op}${isExact(filter) ? '=' : ''}`
  for (const { field, descending } of order) key += descending ? ` -${field}` : ` ${field}`
  return key
}

type Count = (rows: ListSelection, maxRows: number, requester: ScanRequester) => Promise<number>

function scanReader(db: Database, source: PageSource, columns: readonly string[], count: Count) {
  const plain = db.read.withoutPlugins()
  return async (query: ListQuery, requesterOf: RequesterOf): Promise<unknown[]> => {
    const requester = requesterOf()
    const values = valuesOf(query, source)
    const range = divertingRange(query)
    const isFew = range.length > 0 && (await count({ filters: range }, fewRows, requester)) < fewRows
    const planned = range.length > 0 ? (isFew ? 'sort' : 'walk') : 'free'
    const chosen = await scanPlan(db, source, query, values, requester, planned)
    const joins = relatedJoins(query.order, (value) => values.push(value) - 1)
    return db.scan(withValues(pageSql(columns, query, source, { ...chosen, joins }).compile(plain), values), requester)
  }
}

/** Creates the counter of the rows of a selection, which counts up to `maxRows`. */
function counter(db: Database, source: PageSource): Count {
  const plain = db.read.withoutPlugins()
  return async (selected, maxRows, requester) => {
    const { filters } = selected
    const values = valuesOf({ filters, order: [], after: null, backwards: false, limit: maxRows }, source)
    const chosen = await scanPlan(db, source, selected, values, requester)
    const rows = await db.scan(withValues(countSql(filters, source, chosen).compile(plain), values), requester)
    return Number(rows[0]?.count)
  }
}

/**
 * Plans a scan: by id if the text index found few candidates, otherwise as `plan` specifies. Appends the query of the
 * text index and the values of `where` to `values`.
 */
async function scanPlan(
  db: Database,
  source: PageSource,
  { filters, where }: ListSelection,
  values: unknown[],
  requester: ScanRequester,
  plan: Plan = 'free',
): Promise<ScanPlan> {
  const interruptible = db.engine.interruptible(source.table)
  const bind = (value: unknown) => values.push(value) - 1
  const passing = (isHidden: boolean) => (where ? [testSql(where, { bind, isHidden, isEach: isHidden })] : [])
  const planned = () => ({ plan, conditions: [...passing(plan === 'walk'), interruptible] })
  const searched = filters.find(({ op }) => op === 'contains')
  if (searched?.op !== 'contains') return planned()
  const columns = (source.indexed ?? searched.field).map((field) => keyColumnOfField(field, source.columns))
  const found = await db.textIndex.candidates({ table: source.table, columns }, caseFold(searched.value), requester)
  if (found === undefined) return planned()
  return { plan: 'found', conditions: [found.condition(bind(found.match)), ...passing(true), interruptible] }
}

/** Replaces a statement's parameters, which are indexes into `values`, with the values themselves. */
const withValues = <Row>({ sql, parameters }: CompiledQuery<Row>, values: readonly unknown[]): Compilable<Row> => ({
  compile: () =>
    CompiledQuery.raw(
      sql,
      parameters.map((position) => values[position as number]),
    ) as CompiledQuery<Row>,
})

/** Returns the range filters on one field if they need a different index than the order by id. */
function divertingRange({ filters, order }: ListQuery): Filter[] {
  if (order.length > 1 || filters.some(({ op }) => op === '=')) return []
  const first = filters.find(({ op }) => isRange(op))
  return first ? filters.filter(({ field, op }) => field === first.field && isRange(op)) : []
}
