import { type RawBuilder, sql } from 'kysely'

export interface Sort {
  field: string
  descending: boolean
}

export type Filter =
  | { field: string; op: '=' | '>=' | '<=' | '>' | '<'; value: string | number }
  /** Text anywhere in one of these fields, which are stored case-folded. */
  | { field: readonly string[]; op: 'contains'; value: string }

/** One page of a list. */
export interface ListQuery {
  filters: readonly Filter[]
  /** A total order made by `orderOf`. */
  order: readonly Sort[]
  /** Values of the order's fields in the row to continue after, case-folded where the field is stored so. */
  after: readonly (string | number)[] | null
  /** Walk towards the start of the list instead. */
  backwards: boolean
  limit: number
}

/** A total order: the id decides between otherwise equal rows, in the direction of the field before it. */
export function orderOf(sort: readonly Sort[]): Sort[] {
  const id = sort.findIndex(({ field }) => field === 'id')
  if (id >= 0) return sort.slice(0, id + 1)
  return [...sort, { field: 'id', descending: sort.at(-1)?.descending ?? false }]
}

/** The table that a page is read from. */
export interface PageSource {
  table: string
  /** Fields with a folded companion column. */
  folded: readonly string[]
}

/**
 * How the index is chosen where a range filter and the order by id call for different ones: `sort` the few rows of the
 * range, or `walk` by id until enough of many match; `found` names the few rows by their ids. `free` leaves the choice to
 * the engine.
 */
export type Plan = 'free' | 'sort' | 'walk' | 'found'

export const snake = (field: string): string => field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
export const foldValue = (value: unknown): unknown => (typeof value === 'string' ? caseFold(value) : value)

/** Identifies a page's statement: everything except the values. */
export function planKey({ filters, order, after, backwards }: ListQuery): string {
  let shape = `${backwards} ${after !== null}`
  for (const { field, op } of filters) shape += ` ${field}${op}`
  for (const { field, descending } of order) shape += descending ? ` -${field}` : ` ${field}`
  return shape
}

/** The values of a page, at the positions that the parameters of its statement name. */
export function valuesOf({ filters, after, limit }: ListQuery, { folded }: PageSource): unknown[] {
  const values: unknown[] = filters.map((filter) => {
    if (filter.op === 'contains') return likePattern(caseFold(filter.value))
    return folded.includes(filter.field) ? foldValue(filter.value) : filter.value
  })
  if (after) values.push(...after)
  values.push(limit)
  return values
}

/** A LIKE pattern for the text anywhere, with its own wildcards escaped. */
const likePattern = (text: string) => `%${text.replace(/[!%_]/g, '!$&')}%`

/** How a scan is executed. */
export interface ScanPlan {
  plan: Plan
  /** Additional conditions that every row meets. */
  also: readonly RawBuilder<boolean>[]
}

/** The statement of a page; each of its parameters is the position of its value in `valuesOf`. */
export function pageSql(
  columns: readonly string[],
  query: ListQuery,
  source: PageSource,
  { plan, also }: ScanPlan = { plan: 'free', also: [] },
) {
  const { filters, order, after, backwards } = query
  const column = (field: string) => columnOf(field, source, plan === 'found' || (plan === 'sort' && field === 'id'))
  const where = [...also, ...conditionsOf(filters, source, plan)]
  if (after) where.push(behind(order, backwards, column, filters.length))
  const directed = order.map(
    ({ field, descending }) => sql`${column(field)} ${sql.raw(descending !== backwards ? 'desc' : 'asc')}`,
  )
  const limit = filters.length + (after?.length ?? 0)
  const table = sql.table(source.table)
  const shown = sql.join(columns.map((field) => sql`${sql.ref(snake(field))} as ${sql.ref(field)}`))
  const page = sql`from ${table} ${whereAll(where)} order by ${sql.join(directed)} limit ${limitExpression(limit)}`
  if (plan !== 'sort') return sql`select ${shown} ${page}`
  // The ids are sorted within the index, and only the rows of the page are looked up.
  const direction = sql.raw((order[0]?.descending ?? false) !== backwards ? 'desc' : 'asc')
  return sql`select ${shown} from ${table} where id in (select id ${page}) order by id ${direction}`
}

/** Counts the rows that match the filters; the last parameter limits the count. */
export function countSql(filters: readonly Filter[], source: PageSource, { plan, also }: ScanPlan) {
  const passing = whereAll([...also, ...conditionsOf(filters, source, plan)])
  const rows = sql`select 1 as one from ${sql.table(source.table)} ${passing} limit ${limitExpression(filters.length)}`
  return sql<{ count: number }>`select count(*) as count from (${rows}) as counted`
}

/** `coalesce` of a column alone equals the column but matches no index, so both engines choose the other column's index. */
function columnOf(field: string, { folded }: PageSource, isHidden = false): RawBuilder<unknown> {
  const column = sql.ref(snake(folded.includes(field) ? `${field}Key` : field))
  return isHidden ? sql`coalesce(${column}, ${column})` : column
}

const whereAll = (conditions: RawBuilder<unknown>[]): RawBuilder<unknown> =>
  conditions.length > 0 ? sql`where ${sql.join(conditions, sql` and `)}` : sql``

/** One condition per filter; its parameter is the filter's position. */
function conditionsOf(filters: readonly Filter[], source: PageSource, plan: Plan): RawBuilder<unknown>[] {
  return filters.map((filter, at) => {
    if (filter.op !== 'contains') {
      const isLeft = plan === 'found' || (plan === 'walk' && bindParameter(filter.op))
      const column = columnOf(filter.field, source, isLeft)
      return sql`${column} ${sql.raw(filter.op)} ${at}`
    }
    const looks = filter.field.map((field) => sql`${columnOf(field, source)} like ${at} escape '!'`)
    return looks.length === 1 ? (looks[0] as RawBuilder<unknown>) : sql`(${sql.join(looks, sql` or `)})`
  })
}

export const bindParameter = (op: Filter['op']): boolean => op === '>=' || op === '<=' || op === '>' || op === '<'

/**
 * The condition for rows after a given row. Where all directions agree it is one row comparison, which both engines look up
 * in an index; otherwise the first field bounds the search and the others follow where it is equal.
 */
function behind(
  order: readonly Sort[],
  backwards: boolean,
  column: (field: string) => RawBuilder<unknown>,
  place: number,
): RawBuilder<unknown> {
  const columns = order.map(({ field }) => column(field))
  const down = order.map(({ descending }) => descending !== backwards)
  const beyond = (at: number, orEqual = '') => sql.raw((down[at] ? '<' : '>') + orEqual)
  if (columns.length === 1) return sql`${columns[0]} ${beyond(0)} ${place}`
  if (new Set(down).size === 1) {
    return sql`(${sql.join(columns)}) ${beyond(0)} (${sql.join(columns.map((_, at) => place + at))})`
  }
  const step = (at: number): RawBuilder<unknown> => {
    const value = place + at
    const further = sql`${columns[at]} ${beyond(at)} ${value}`
    if (at === order.length - 1) return further
    return sql`(${columns[at]} ${beyond(at, '=')} ${value} and (${further} or ${step(at + 1)}))`
  }
  return step(0)
}

/**
 * The number of a LIMIT. SQLite plans by a bare parameter there and so prepares the statement again for each binding, which
 * takes longer than reading a page; it does not do so for a sum.
 */
export const limitExpression = (rows: number): RawBuilder<number> => sql<number>`${rows} + 0`

/** Normalizes case and Unicode form (NFKC), as search, sort and uniqueness compare text. */
export const caseFold = (text: string): string =>
  ascii.test(text) ? text.toLowerCase() : text.normalize('NFKC').toLowerCase().normalize('NFKC')

/** ASCII text has only one Unicode form. */
const ascii = /^[\x20-\x7e]*$/
