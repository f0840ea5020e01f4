import { type RawBuilder, type ReferenceExpression, sql } from 'kysely'
import { fold } from './fold.ts'
import type { Database } from './open.ts'
import type { Row } from './rows.ts'
import type { Tables } from './tables.ts'

export interface Sort {
  field: string
  descending: boolean
}

export type Filter =
  | { field: string; op: '=' | '>=' | '<=' | '>' | '<'; value: string | number }
  /** Text anywhere in one of these fields. */
  | { field: readonly string[]; op: 'contains'; value: string }

export interface ListQuery {
  filters: Filter[]
  sort: Sort[]
  /** Values of the sort fields of the row to start behind. */
  after: readonly (string | number)[] | null
  /** Walk towards the start of the list instead. */
  backwards: boolean
  limit: number
}

/** Text as it is compared; anything else as it is. */
export const foldValue = (value: unknown) => (typeof value === 'string' ? fold(value) : value)

interface Filterable {
  where: (condition: string | RawBuilder<unknown>, op?: string, value?: unknown) => Filterable
}

/** The query with its filters as conditions. */
export function where<Q>(query: Q, filters: ListQuery['filters'], folded: readonly string[]): Q {
  let met = query as Filterable
  for (const filter of filters) {
    if (filter.op === 'contains') {
      const pattern = likePattern(fold(filter.value))
      const looks = filter.field.map((field) => sql`${sql.ref(`${field}Key`)} like ${pattern} escape '!'`)
      met = met.where(sql`(${sql.join(looks, sql` or `)})`)
      continue
    }
    const { field, op, value } = filter
    const isFolded = folded.includes(field)
    met = met.where(isFolded ? `${field}Key` : field, op, isFolded ? foldValue(value) : value)
  }
  return met as Q
}

/** Any text around this one, its own wildcards made literal. */
const likePattern = (text: string) => `%${text.replace(/[!%_]/g, '!$&')}%`

type Column = ReferenceExpression<Tables, 'products'>

/** The rows of one page, walked by keyset. */
export async function list(
  db: Database,
  table: 'products',
  shown: string[],
  folded: readonly string[],
  query: ListQuery,
) {
  const order = [...query.sort, { field: 'id', descending: false }].map(({ field, descending }) => ({
    column: (folded.includes(field) ? `${field}Key` : field) as Column,
    descending: descending !== query.backwards,
  }))
  let statement = db.read.selectFrom(table).select(shown as never)
  statement = where(statement, query.filters, folded)
  const { after } = query
  if (after) statement = statement.where((row) => behind(row as never, order, after) as never)
  for (const { column, descending } of order) statement = statement.orderBy(column, descending ? 'desc' : 'asc')
  const rows = (await statement.limit(query.limit).execute()) as Row[]
  return query.backwards ? rows.reverse() : rows
}

type Compare = ((column: Column, op: string, value: unknown) => unknown) & {
  or: (parts: unknown[]) => unknown
  and: (parts: unknown[]) => unknown
}

/** Keyset condition for mixed directions: behind in the first field, or equal there and behind in the next, … */
function behind(compare: Compare, order: { column: Column; descending: boolean }[], after: readonly unknown[]) {
  const steps = order.map(({ column, descending }, at) => {
    const equal = order.slice(0, at).map((before, index) => compare(before.column, '=', after[index]))
    return compare.and([...equal, compare(column, descending ? '<' : '>', after[at])])
  })
  return compare.or(steps)
}
