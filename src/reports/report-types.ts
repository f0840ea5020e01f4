import { type RawBuilder, sql } from 'kysely'
import { type DecimalForm, decimalTextOf, parseDecimal } from '../http/decimal.ts'
import { Problem } from '../http/problems/problem.ts'
import { accountOf } from '../http/requester.ts'
import type { Database } from '../storage/database.ts'
import { wideInteger } from '../storage/rows/column-codec.ts'
import { caseFold } from '../storage/rows/page-query.ts'
import { type LongRead, type LongReadOptions, longRead } from '../storage/snapshots/long-read.ts'
import type { ReportColumn } from './formats/format.ts'

/** A condition that a report request may contain; `column` is an SQL expression. */
export interface ReportFilter {
  name: string
  type: 'string' | 'number' | 'boolean'
  column: string
  op: '=' | '>=' | '<=' | '>' | '<'
  /** Whether the column holds case-folded text. */
  folded: boolean
  /**
   * The decimal's format, for a decimal whose `type` is `string` and whose `column` is an integer without the decimal point.
   */
  decimal?: DecimalForm
}

/**
 * A report type as plain data that contains everything a thread needs to read the rows. `sql` and `column` are SQL
 * expressions, and `from` is the text of the FROM clause; all SQL is written by developers, never by a client.
 */
export interface ReportKind {
  name: string
  /** The heading in documents; default: the name. */
  title?: string
  /** The scope required for the report, which is the scope required to read the same rows elsewhere; null for none. */
  scope: string | null
  columns: readonly (ReportColumn & { sql: string })[]
  from: string
  /** SQL expressions, never null, that together identify a row and determine the order; backed by an index. */
  key: readonly string[]
  /** The column bounded by `from` and `to`: an instant or a date, as text. */
  time?: { column: string; type: 'instant' | 'date' }
  filters?: readonly ReportFilter[]
  /** Fields to sort by, with their SQL expressions, each backed by an index. */
  sorts?: Readonly<Record<string, string>>
  /**
   * Owner columns. Rows of other owners are omitted, unless `adminSeesAll` is set and the requester has the scope `admin`.
   */
  owned?: { client: string; subject?: string; adminSeesAll: boolean }
}

export type FilterValue = string | number | boolean

/** A report's parameters, validated against its type. */
export interface ReportQuery {
  from?: string
  to?: string
  filter?: Record<string, FilterValue>
  fields?: string[]
  sort?: string[]
}

/** The account for which a report is generated. */
export interface ReportRequester {
  clientId: string
  subject: string
  isAdmin: boolean
}

/** Returns a report's columns, in the requested order. */
export function columnsOf({ columns }: ReportKind, { fields }: ReportQuery): ReportKind['columns'] {
  if (!fields) return columns
  return fields.flatMap((name) => columns.filter((column) => column.name === name))
}

/** Returns a report's rows as a long read. */
export const readOf = (db: Database, kind: ReportKind, query: ReportQuery, viewer: ReportRequester): LongRead =>
  longRead(db, queryOf(kind, query, viewer))

/** Counts a report's rows, up to `max`; if few rows match its filters, the query reads all rows. */
export async function countUpTo(
  db: Database,
  kind: ReportKind,
  query: ReportQuery,
  viewer: ReportRequester,
  max: number,
) {
  const { from, where } = queryOf(kind, query, viewer)
  const [, table] = /^"?(\w+)"?(?= join |$)/.exec(kind.from) ?? []
  const conditions = [...(where as RawBuilder<unknown>[]), ...(table ? [db.engine.interruptible(table)] : [])]
  const met = conditions.length > 0 ? sql`where ${sql.join(conditions, sql` and `)}` : sql``
  const counting = sql<{
    rows: number
  }>`select count(*) as rows from (select 1 from ${from} ${met} limit ${max}) as found`
  const account = accountOf(viewer)
  const [counted] = await db.scan<{ rows: number }>({ compile: () => counting.compile(db.read) }, { account })
  return Number(counted?.rows)
}

function queryOf(kind: ReportKind, query: ReportQuery, viewer: ReportRequester): LongReadOptions {
  const columns = columnsOf(kind, query)
  const order = [
    ...(query.sort ?? []).map((entry) => {
      const name = entry.replace(/^-/, '')
      const isWide = kind.columns.find((column) => column.name === name)?.decimal !== undefined
      return { column: kind.sorts?.[name] as string, descending: entry.startsWith('-'), isWide }
    }),
    ...kind.key.map((column) => ({ column, descending: false, isWide: false })),
  ]
  // Columns after a unique key do not affect the order, so they are dropped.
  const first = order.findIndex(({ column }) => kind.key.length === 1 && column === kind.key[0])
  return {
    cells: columns.map(({ sql: text, type }) => ({ term: sql.raw(text), type })),
    from: sql.raw(kind.from),
    where: conditions(kind, query, viewer),
    order: (first < 0 ? order : order.slice(0, first + 1)).map(({ column, descending, isWide }) => {
      const cell = columns.findIndex(({ sql: text }) => text === column)
      return { term: sql.raw(column), descending, isWide, ...(cell >= 0 && { cell }) }
    }),
  }
}

function conditions(kind: ReportKind, query: ReportQuery, viewer: ReportRequester): RawBuilder<unknown>[] {
  const { time, owned } = kind
  const met: RawBuilder<unknown>[] = []
  if (owned && !(owned.adminSeesAll && viewer.isAdmin)) {
    met.push(sql`${sql.raw(owned.client)} = ${viewer.clientId}`)
    if (owned.subject) met.push(sql`${sql.raw(owned.subject)} = ${viewer.subject}`)
  }
  if (time && query.from !== undefined) met.push(sql`${sql.raw(time.column)} >= ${query.from}`)
  if (time && query.to !== undefined) met.push(sql`${sql.raw(time.column)} < ${query.to}`)
  for (const [name, value] of Object.entries(query.filter ?? {})) {
    const filter = kind.filters?.find((known) => known.name === name) as ReportFilter
    met.push(sql`${sql.raw(filter.column)} ${sql.raw(filter.op)} ${operandOf(filter, value)}`)
  }
  return met
}

/**
 * Returns the value to compare with a filter's column. Throws a Problem if the definition has changed since the request.
 */
function operandOf({ name, folded, decimal }: ReportFilter, value: FilterValue): RawBuilder<unknown> {
  if (decimal) {
    const parsed = parseFilterDecimal(value, decimal)
    if ('error' in parsed) throw new Problem('VALIDATION_ERROR', `The filter ${name} ${parsed.error}`)
    // As text, because on PostgreSQL a report's values are passed as settings, whose only numeric type is double.
    return sql`cast(${String(wideInteger(parsed.value))} as bigint)`
  }
  // Booleans are stored as 1 or 0.
  return sql`${folded ? caseFold(String(value)) : typeof value === 'boolean' ? Number(value) : value}`
}

/** Parses a filter's decimal, which may be a string or a number. */
export const parseFilterDecimal = (value: FilterValue, form: DecimalForm): ReturnType<typeof parseDecimal> =>
  parseDecimal(typeof value === 'number' ? decimalTextOf(value) : String(value), form)
