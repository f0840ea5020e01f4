import { CompiledQuery } from 'kysely'
import type { Database, Prepared } from './open.ts'
import {
  countSql,
  type Filter,
  isBound,
  type ListQuery,
  type PageSource,
  type Plan,
  pageSql,
  shapeOf,
  valuesOf,
} from './page.ts'

/** A row as a mark on a page: the two tell whether it has changed. */
export interface Mark {
  id: number
  revision: number
}

/** The lists of a table, in pages that cost the same wherever they start. */
export interface Lists<Row> {
  page: (query: ListQuery) => Row[] | Promise<Row[]>
  /** The rows of the same page as marks, for a third of the cost. */
  marks: (query: ListQuery) => Mark[] | Promise<Mark[]>
  count: (filters: readonly Filter[]) => Promise<number>
}

interface Statement {
  prepared: Prepared<unknown>
  /** For each parameter the place of its value. */
  places: readonly number[]
}

type Run = (query: ListQuery, plan: Plan) => unknown[] | Promise<unknown[]>

/** More shapes than anybody uses: clients may try them all, and a server keeps what is prepared. */
const shapesKept = 100
/** So many entries of an index are sorted in a millisecond or two. */
const fewRows = 20_000
const allRows = 2_147_483_647

/** Lists of the `shown` fields; each shape of filter, order and direction is compiled once. */
export function listsOf<Row>(db: Database, source: PageSource, shown: readonly string[]): Lists<Row> {
  const count = counter(db, source)
  const planned = (run: Run) => (query: ListQuery) => {
    const range = divertingRange(query)
    if (range.length === 0) return run(query, 'free')
    return count(range, fewRows).then((found) => run(query, found < fewRows ? 'sort' : 'walk'))
  }
  return {
    page: planned(runner(db, source, shown)) as Lists<Row>['page'],
    marks: planned(runner(db, source, ['id', 'revision'])) as Lists<Row>['marks'],
    count: (filters) => count(filters, allRows),
  }
}

function runner(db: Database, source: PageSource, columns: readonly string[]): Run {
  const known = new Map<string, Statement>()
  const plain = db.read.withoutPlugins()
  return (query, plan) => {
    const shape = shapeOf(query, plan)
    const given = valuesOf(query, source)
    const statement = known.get(shape)
    if (statement) return statement.prepared.all(statement.places.map((place) => given[place]))
    const compiled = pageSql(columns, query, source, plan).compile(plain)
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

/** Counts the rows that pass the filters, `most` of them at most. */
function counter(db: Database, source: PageSource) {
  const plain = db.read.withoutPlugins()
  return async (filters: readonly Filter[], most: number): Promise<number> => {
    const query: ListQuery = { filters, order: [], after: null, backwards: false, limit: most }
    const given = valuesOf(query, source)
    const compiled = countSql(filters, source).compile(plain)
    const values = compiled.parameters.map((place) => given[place as number])
    const { rows } = await plain.executeQuery<{ count: number }>(CompiledQuery.raw(compiled.sql, values))
    return Number(rows[0]?.count)
  }
}

/** The range that alone decides which rows there are, while the order by id asks for another index. */
function divertingRange({ filters, order }: ListQuery): Filter[] {
  if (order.length > 1 || filters.some(({ op }) => op === '=')) return []
  const first = filters.find(({ op }) => isBound(op))
  return first ? filters.filter(({ field, op }) => field === first.field && isBound(op)) : []
}
