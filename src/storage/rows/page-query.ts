import { type RawBuilder, sql } from 'kysely'
import { wideInteger } from './column-codec.ts'
import { type ColumnNames, columnOfField, keyColumnOfField } from './column-names.ts'
import { afterRow, relatedSelections, relatedTerm, type Sort, termValue } from './page-order.ts'
import type { RowTest } from './row-test.ts'

export type Filter =
  /**
   * The value to compare with a companion column is case-folded first, unless `stored` says that it already has its
   * stored form. An `exact` filter compares the text itself; it needs its own index (`ResourceColumn.exact`).
   */
  | { field: string; op: '=' | '>=' | '<=' | '>' | '<'; value: string | number; stored?: true; exact?: true }
  /** Matches text anywhere in one of these fields, which have case-folded companion columns. */
  | { field: readonly string[]; op: 'contains'; value: string }

/** Selects one page of a list. */
export interface ListQuery {
  filters: readonly Filter[]
  /** An additional condition on the rows. A page with such a condition is not index-bounded. */
  where?: RowTest
  /** A total order, from `orderOf`. */
  order: readonly Sort[]
  /** The sort-key values of the row after which reading starts, or null; text of folded fields is case-folded. */
  after: readonly (string | number)[] | null
  /** True to read toward the start of the list. */
  backwards: boolean
  limit: number
}

/** The table from which a page is read. */
export interface PageSource {
  table: string
  /** Fields with a case-folded companion column. */
  folded: readonly string[]
  /** Fields stored as 64-bit integers (`Codec.isWide`); filters and cursors hold their values as decimal strings. */
  wide: readonly string[]
  columns?: ColumnNames | undefined
  /** Integer fields whose columns may be narrower than the values in queries. */
  narrow?: readonly string[] | undefined
  /** The fields of the text index, if lists search only some of them. */
  indexed?: readonly string[] | undefined
}

/**
 * How to choose an index if a range filter and the order by id need different ones. `sort` reads the rows in the range
 * and sorts them, which suits a small range. `walk` reads rows by id until enough of them match. `found` reads a few
 * rows whose ids are known. `free` leaves the choice to the engine.
 */
export type Plan = 'free' | 'sort' | 'walk' | 'found'

export const foldValue = (value: unknown): unknown => (typeof value === 'string' ? caseFold(value) : value)

/** Returns the parameter values for a page. In the statement, each parameter is an index into this array. */
export function valuesOf({ filters, order, after, limit }: ListQuery, { folded, wide }: PageSource): unknown[] {
  const bound = (field: string | undefined, value: unknown) =>
    wide.includes(field as string) ? wideInteger(String(value)) : value
  const values: unknown[] = filters.map((filter) => {
    if (filter.op === 'contains') return likePattern(caseFold(filter.value))
    if (!folded.includes(filter.field) || isExact(filter)) return bound(filter.field, filter.value)
    return filter.stored ? filter.value : foldValue(filter.value)
  })
  const inOrder = (value: string | number, sort: Sort | undefined) =>
    sort?.along ? termValue(sort.along, value) : bound(sort?.field, value)
  if (after) values.push(...after.map((value, at) => inOrder(value, order[at])))
  values.push(limit)
  return values
}

/** Returns a LIKE pattern that matches the text anywhere, with wildcards in the text escaped. */
const likePattern = (text: string) => `%${text.replace(/[!%_]/g, '!$&')}%`

/** The plan of a scan, and its additional conditions. */
export interface ScanPlan {
  plan: Plan
  conditions: readonly RawBuilder<boolean>[]
  /** The joins with the related rows of the order (`relatedJoins`). */
  joins?: RawBuilder<unknown> | undefined
}

/** Returns the statement for a page. Its parameters are indexes into the array that `valuesOf` returns. */
export function pageSql(
  columns: readonly string[],
  query: ListQuery,
  source: PageSource,
  { plan, conditions, joins = sql`` }: ScanPlan = { plan: 'free', conditions: [] },
) {
  const { filters, order, after, backwards } = query
  const column = (field: string) => columnOf(field, source, plan === 'found' || (plan === 'sort' && field === 'id'))
  const where = [...conditions, ...conditionsOf(filters, source, plan)]
  const terms = order.map(({ field, along }, at) => (along ? relatedTerm(order, at, along) : column(field)))
  const valueAt = (at: number) => parameterOf(order[at] as Sort, filters.length + at, source)
  if (after) where.push(afterRow(order, backwards, terms, valueAt))
  const ordering = order.map(
    ({ descending }, at) => sql`${terms[at]} ${sql.raw(descending !== backwards ? 'desc' : 'asc')}`,
  )
  const limit = filters.length + (after?.length ?? 0)
  const table = sql.table(source.table)
  const own = columns.map((field) => sql`${readColumn(field, source)} as ${sql.ref(field)}`)
  const selected = sql.join([...own, ...relatedSelections(order)])
  const page = sql`from ${table} ${joins} ${whereAll(where)} order by ${sql.join(ordering)} limit ${limitExpression(limit)}`
  if (plan !== 'sort') return sql`select ${selected} ${page}`
  // The subquery sorts ids from the index; only the rows of the page are then read from the table.
  const direction = sql.raw((order[0]?.descending ?? false) !== backwards ? 'desc' : 'asc')
  return sql`select ${selected} from ${table} where id in (select id ${page}) order by id ${direction}`
}

/** Returns the statement that counts the matching rows; its last parameter is the maximum count. */
export function countSql(filters: readonly Filter[], source: PageSource, { plan, conditions }: ScanPlan) {
  const passing = whereAll([...conditions, ...conditionsOf(filters, source, plan)])
  const rows = sql`select 1 as one from ${sql.table(source.table)} ${passing} limit ${limitExpression(filters.length)}`
  return sql<{ count: number }>`select count(*) as count from (${rows}) as counted`
}

/**
 * Returns a column. A hidden column is wrapped in `coalesce`, which keeps its value but prevents the use of its index.
 */
function columnOf(field: string, source: PageSource, isHidden = false): RawBuilder<unknown> {
  const { table, folded, wide, columns = {} } = source
  const name = folded.includes(field) ? keyColumnOfField(field, columns) : columnOfField(field, columns)
  // Without the table name, the column could be taken for a selected expression of the same name: the text of a wide
  // field, or another field.
  const column = wide.includes(field) || field in columns ? sql.ref(`${table}.${name}`) : sql.ref(name)
  return isHidden ? sql`coalesce(${column}, ${column})` : column
}

/** Returns the expression that reads a field's column. */
export function readColumn(field: string, { wide, columns }: Pick<PageSource, 'wide' | 'columns'>) {
  const column = sql.ref(columnOfField(field, columns))
  return wide.includes(field) ? sql`cast(${column} as text)` : column
}

const whereAll = (conditions: RawBuilder<unknown>[]): RawBuilder<unknown> =>
  conditions.length > 0 ? sql`where ${sql.join(conditions, sql` and `)}` : sql``

/** Returns one condition per filter. The parameter of each condition is the index of its filter. */
function conditionsOf(filters: readonly Filter[], source: PageSource, plan: Plan): RawBuilder<unknown>[] {
  return filters.map((filter, at) => {
    if (filter.op !== 'contains') {
      const isHidden = plan === 'found' || (plan === 'walk' && isRange(filter.op))
      const column = columnOf(filter.field, isExact(filter) ? { ...source, folded: [] } : source, isHidden)
      return sql`${column} ${sql.raw(filter.op)} ${parameterOf({ field: filter.field }, at, source)}`
    }
    const matches = filter.field.map((field) => sql`${columnOf(field, source)} like ${at} escape '!'`)
    return matches.length === 1 ? (matches[0] as RawBuilder<unknown>) : sql`(${sql.join(matches, sql` or `)})`
  })
}

/**
 * Returns the expression for a parameter. Casts it if the column may be narrow, because PostgreSQL would otherwise
 * assume the column's type.
 */
function parameterOf({ field, along }: Pick<Sort, 'field' | 'along'>, position: number, { narrow }: PageSource) {
  const isCast = along ? along.type === 'integer' : narrow?.includes(field)
  return isCast ? sql`cast(${position} as bigint)` : sql`${position}`
}

export const isExact = (filter: Filter): boolean => filter.op === '=' && filter.exact === true

export const isRange = (op: Filter['op']): boolean => op === '>=' || op === '<=' || op === '>' || op === '<'

/**
 * Returns the expression for a LIMIT. Given only the parameter, SQLite would plan for its value and prepare the
 * statement again for each new value, which takes longer than reading a page. Adding 0 avoids this.
 */
export const limitExpression = (rows: number): RawBuilder<number> => sql<number>`${rows} + 0`

/** Normalizes case and Unicode form (NFKC) of text that is searched, sorted or unique. */
export const caseFold = (text: string): string =>
  ascii.test(text) ? text.toLowerCase() : text.normalize('NFKC').toLowerCase().normalize('NFKC')

/** Matches text that NFKC normalization does not change. */
const ascii = /^[\x20-\x7e]*$/
