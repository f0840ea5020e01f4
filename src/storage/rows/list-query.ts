import { type Compilable, CompiledQuery, sql } from 'kysely'
import type { Database, Prepared } from '../database.ts'
import type { ScanRequester } from '../scans/scan.ts'
import {
  bindParameter,
  caseFold,
  countSql,
  type Filter,
  type ListQuery,
  type PageSource,
  type Plan,
  pageSql,
  planKey,
  type ScanPlan,
  snake,
  valuesOf,
} from './page-query.ts'

/** A row's id and revision, which together detect changes of a page. */
export interface Mark {
  id: number
  revision: number
}

/** The requester; evaluated only for reads that must queue. */
export type RequesterOf = () => ScanRequester

/**
 * The lists of a table. A page that an index bounds costs the same wherever it starts, and is read immediately. All other
 * pages, and counts, are scans (`Database.scan`).
 */
export interface Lists<Row> {
  page: (query: ListQuery, requesterOf: RequesterOf) => Row[] | Promise<Row[]>
  /** The same page as marks, for a third of the cost. */
  marks: (query: ListQuery, requesterOf: RequesterOf) => Mark[] | Promise<Mark[]>
  count: (filters: readonly Filter[], requesterOf: RequesterOf) => Promise<number>
  /** See `Database.generation`. */
  generation: Database['generation']
}

interface Statement {
  prepared: Prepared<unknown>
  /** For each parameter, the position of its value. */
  places: readonly number[]
}

type Run = (query: ListQuery, requesterOf: RequesterOf) => unknown[] | Promise<unknown[]>

/** More shapes than an index bounds for any list; limited because a server holds on to prepared statements. */
const shapesKept = 200
/** Sorting this many index entries takes a millisecond or two. */
const fewRows = 20_000
const allRows = 2_147_483_647

/** Lists of the `shown` fields; each combination of filter, order and direction that an index bounds is compiled once. */
export function listsOf<Row>(db: Database, source: PageSource, shown: readonly string[]): Lists<Row> {
  const count = counter(db, source)
  const reader = (columns: readonly string[]): Run => {
    const [read, scan] = [boundedReader(db, source, columns), scanReader(db, source, columns, count)]
    return (query, requesterOf) => (isBounded(query) ? read(query) : scan(query, requesterOf))
  }
  return {
    page: reader(shown) as Lists<Row>['page'],
    marks: reader(['id', 'revision']) as Lists<Row>['marks'],
    count: (filters, requesterOf) => count(filters, allRows, requesterOf()),
    generation: db.generation,
  }
}

/**
 * Whether an index holds the rows of the page contiguously and in its order: all rows ordered by one field, or those with
 * one value ordered by id. Every field to filter or sort by has an index that ends with the id (`resource-tables/ddl.ts`).
 */
export function isBounded({ filters, order }: ListQuery): boolean {
  const [filter] = filters
  if (filter !== undefined) return filters.length === 1 && filter.op === '=' && order[0]?.field === 'id'
  return (
    order.length === 1 ||
    (order.length === 2 && order[0]?.descending === order[1]?.descending && order[1]?.field === 'id')
  )
}

function boundedReader(db: Database, source: PageSource, columns: readonly string[]) {
  const known = new Map<string, Statement>()
  const plain = db.read.withoutPlugins()
  return (query: ListQuery): unknown[] | Promise<unknown[]> => {
    const shape = planKey(query)
    const given = valuesOf(query, source)
    const statement = known.get(shape)
    if (statement) return statement.prepared.all(statement.places.map((place) => given[place]))
    const compiled = pageSql(columns, query, source).compile(plain)
    const places = compiled.parameters as number[]
    const values = places.map((place) => given[place])
    if (known.size >= shapesKept) {
      return plain.executeQuery(CompiledQuery.raw(compiled.sql, values)).then(({ rows }) => rows)
    }
    const prepared = db.prepare<unknown>({ compile: () => compiled })
    known.set(shape, { prepared, places })
    return prepared.all(values)
  }
}

type Count = (filters: readonly Filter[], most: number, requester: ScanRequester) => Promise<number>

function scanReader(db: Database, source: PageSource, columns: readonly string[], count: Count) {
  const plain = db.read.withoutPlugins()
  return async (query: ListQuery, requesterOf: RequesterOf): Promise<unknown[]> => {
    const requester = requesterOf()
    const given = valuesOf(query, source)
    const range = divertingRange(query)
    const few = range.length > 0 && (await count(range, fewRows, requester)) < fewRows
    const planned = range.length > 0 ? (few ? 'sort' : 'walk') : 'free'
    const how = await scanPlan(db, source, query.filters, given, requester, planned)
    return db.scan(withValues(pageSql(columns, query, source, how).compile(plain), given), requester)
  }
}

/** Counts at most `most` rows that match the filters. */
function counter(db: Database, source: PageSource): Count {
  const plain = db.read.withoutPlugins()
  return async (filters, most, requester) => {
    const given = valuesOf({ filters, order: [], after: null, backwards: false, limit: most }, source)
    const how = await scanPlan(db, source, filters, given, requester)
    const rows = await db.scan(withValues(countSql(filters, source, how).compile(plain), given), requester)
    return Number(rows[0]?.count)
  }
}

/**
 * Plans a scan: reads by id where the text index has found few candidates, else as planned. Appends its value to `given`.
 */
async function scanPlan(
  db: Database,
  source: PageSource,
  filters: readonly Filter[],
  given: unknown[],
  requester: ScanRequester,
  plan: Plan = 'free',
): Promise<ScanPlan> {
  const goesOn = db.engine.interruptible(source.table)
  const searched = filters.find(({ op }) => op === 'contains')
  if (searched?.op !== 'contains') return { plan, also: [goesOn] }
  const columns = searched.field.map((field) => snake(`${field}Key`))
  const found = await db.textIndex.candidates({ table: source.table, columns }, caseFold(searched.value), requester)
  if (found === undefined) return { plan, also: [goesOn] }
  const place = given.push(found.match) - 1
  return { plan: 'found', also: [sql<boolean>`id in (${found.ids(place)})`, goesOn] }
}

/** Replaces a statement's parameters, which are positions, with the values at these positions. */
const withValues = <Row>({ sql, parameters }: CompiledQuery<Row>, given: readonly unknown[]): Compilable<Row> => ({
  compile: () =>
    CompiledQuery.raw(
      sql,
      parameters.map((place) => given[place as number]),
    ) as CompiledQuery<Row>,
})

/** The range filters on one field, where they determine the rows while the order by id calls for another index. */
function divertingRange({ filters, order }: ListQuery): Filter[] {
  if (order.length > 1 || filters.some(({ op }) => op === '=')) return []
  const first = filters.find(({ op }) => bindParameter(op))
  return first ? filters.filter(({ field, op }) => field === first.field && bindParameter(op)) : []
}
