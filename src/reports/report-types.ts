import { type RawBuilder, sql } from 'kysely'
import type { Caller } from '../http/policies/authenticate.ts'
import { accountOf } from '../http/requester.ts'
import type { Database } from '../storage/database.ts'
import { passesNone, type RowTest, testSql } from '../storage/rows/row-test.ts'
import { aggregateRead, countGroups } from '../storage/snapshots/aggregate-read.ts'
import { type LongRead, type LongReadOptions, longRead } from '../storage/snapshots/long-read.ts'
import { type DeclaredReport, groupingOf } from './declared-report.ts'
import type { ReportColumn } from './formats/format.ts'
import { comparedIn, type FilterValue, operandOf, type ReportFilter } from './report-filters.ts'

/**
 * A report type as plain data. `sql` and `column` are SQL expressions, and `from` is the text of the FROM clause; all
 * SQL is written by developers, never by a client.
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
   * Owner columns. Rows of other owners are omitted, unless `adminSeesAll` is set and the requester has the scope
   * `admin`.
   */
  owned?: { client: string; subject?: string; adminSeesAll: boolean }
}

/** A report type, and how the service treats requests for it. */
export interface ServedReport extends ReportKind {
  /** Set for a report declared with `report()`, which accepts only the parameters declared there. */
  typed?: DeclaredReport
  /** Set if the access rules of a resource decide which of its rows a requester may read. */
  restricted?: { resource: string; table: string }
}

/** The access rules of resources, for reports on these resources. */
export interface ReportAccess {
  /** Returns the test that decides which rows a caller may read. Rejects if an access rule throws. */
  readable: (resource: string, caller: Caller) => Promise<RowTest>
  /** Returns the requester of a task as a caller, with those scopes of its token that have not been revoked since. */
  callerNow: (requester: { ownerClient: string; ownerSubject: string; scopes: string | null }) => Promise<Caller>
}

/** The validated parameters of a report. A report that declares its own parameters has different members. */
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
  /** Selects the rows of a report with declared parameters. */
  matching?: RowTest | undefined
  /** Selects the rows that the requester of a restricted report may read. */
  readable?: RowTest | undefined
}

/** Returns a caller as the requester of a report. Rejects if an access rule throws. */
export async function requesterFor(
  { restricted }: ServedReport,
  access: ReportAccess | undefined,
  caller: Caller,
): Promise<ReportRequester> {
  const { clientId, subject, scopes } = caller
  const readable = restricted ? await access?.readable(restricted.resource, caller) : undefined
  return { clientId, subject, isAdmin: scopes.has('admin'), readable }
}

/** Returns a report's columns, in the requested order. */
export function columnsOf({ columns, typed }: ServedReport, { fields }: ReportQuery): ReportKind['columns'] {
  if (!fields || typed) return columns
  return fields.flatMap((name) => columns.filter((column) => column.name === name))
}

/** Returns the `LongRead` of a report's rows. */
export function readOf(db: Database, kind: ServedReport, query: ReportQuery, viewer: ReportRequester): LongRead {
  const groups = kind.typed && groupingOf(db, kind.typed)
  if (groups === undefined) return longRead(db, queryOf(db, kind, query, viewer))
  return aggregateRead(db, { ...groups, where: [...conditions(db, kind, query, viewer), groups.interruptible] })
}

/**
 * Counts a report's rows, or the groups of a grouped report, up to `max`. If few rows match its filters, the query
 * may read all rows.
 */
export async function countUpTo(
  db: Database,
  kind: ServedReport,
  query: ReportQuery,
  viewer: ReportRequester,
  max: number,
) {
  const grouped = kind.typed && groupingOf(db, kind.typed)
  if (grouped?.groups.length === 0) return 1
  const [, table] = /^"?(\w+)"?(?= join |$)/.exec(kind.from) ?? []
  const where = [...conditions(db, kind, query, viewer), ...(table ? [db.engine.interruptible(table)] : [])]
  const counting = countGroups({ from: sql.raw(kind.from), where, groups: grouped?.groups ?? [] }, max)
  const account = accountOf(viewer)
  const [counted] = await db.scan<{ rows: number }>({ compile: () => counting.compile(db.read) }, { account })
  return Number(counted?.rows)
}

function queryOf(db: Database, kind: ServedReport, query: ReportQuery, viewer: ReportRequester): LongReadOptions {
  const columns = columnsOf(kind, query)
  // A typed report may have a parameter named `sort` with a different meaning.
  const sort = kind.typed ? [] : (query.sort ?? [])
  const order = [
    ...sort.map((entry) => {
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
    where: conditions(db, kind, query, viewer),
    order: (first < 0 ? order : order.slice(0, first + 1)).map(({ column, descending, isWide }) => {
      const cell = columns.findIndex(({ sql: text }) => text === column)
      return { term: sql.raw(column), descending, isWide, ...(cell >= 0 && { cell }) }
    }),
  }
}

function conditions(
  { engine }: Pick<Database, 'engine'>,
  kind: ServedReport,
  query: ReportQuery,
  viewer: ReportRequester,
): RawBuilder<unknown>[] {
  const { time, owned, typed, restricted } = kind
  const met: RawBuilder<unknown>[] = []
  const bind = comparedIn(engine)
  if (restricted) met.push(testSql(viewer.readable ?? passesNone, { table: restricted.table, bind }))
  if (typed) return [...met, testSql(viewer.matching ?? passesNone, { table: typed.table, bind })]
  if (owned && !(owned.adminSeesAll && viewer.isAdmin)) {
    met.push(sql`${sql.raw(owned.client)} = ${viewer.clientId}`)
    if (owned.subject) met.push(sql`${sql.raw(owned.subject)} = ${viewer.subject}`)
  }
  if (time && query.from !== undefined) met.push(sql`${sql.raw(time.column)} >= ${query.from}`)
  if (time && query.to !== undefined) met.push(sql`${sql.raw(time.column)} < ${query.to}`)
  for (const [name, value] of Object.entries(query.filter ?? {})) {
    const filter = kind.filters?.find((known) => known.name === name) as ReportFilter
    met.push(sql`${sql.raw(filter.column)} ${sql.raw(filter.op)} ${operandOf(engine, filter, value)}`)
  }
  return met
}
