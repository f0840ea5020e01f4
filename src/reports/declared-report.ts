import type { FastifySchemaValidationError } from 'fastify'
import { type RawBuilder, sql } from 'kysely'
import { fromValidation } from '../http/problems/framework-errors.ts'
import type { FieldError } from '../http/problems/problem.ts'
import type { Database } from '../storage/database.ts'
import { decimalText } from '../storage/rows/column-codec.ts'
import type { ColumnNames } from '../storage/rows/column-names.ts'
import type { RowTest } from '../storage/rows/row-test.ts'
import type { AggregateReadOptions } from '../storage/snapshots/aggregate-read.ts'
import type { ReportColumn } from './formats/format.ts'

/** The parameter values of a report request, by parameter name. */
export type DeclaredValues = Readonly<Record<string, unknown>>

/**
 * A column of a grouped report: either a term that rows are grouped by, or an aggregate. `sql` is the expression to
 * group by or to aggregate.
 */
export interface GroupedColumn extends ReportColumn {
  sql: string
  role: 'group' | 'sum' | 'avg' | 'min' | 'max' | 'count'
}

/** A report that an author declares with `report()`, as data and functions that do not depend on resources. */
export interface DeclaredReport {
  name: string
  title?: string
  scope: string | null
  table: string
  storedAs?: ColumnNames | undefined
  /** The JSON Schema of the parameters. */
  parameters: object
  /** Validates the parameters of a request and fills in their defaults. */
  read: (parameters: unknown) => { value: DeclaredValues } | { failures: FastifySchemaValidationError[] }
  /** Returns the test that selects the report's rows. Throws if the author's condition throws. */
  matching: (values: DeclaredValues, now: () => number) => RowTest
  /** The columns of a report that lists single rows; absent if its rows are grouped or aggregated. */
  columns?: readonly ReportColumn[]
  grouped?: readonly GroupedColumn[]
}

/** Validates a request's parameters. The paths of the failures begin with `/parameters`. */
export function readDeclared({ read }: DeclaredReport, parameters: unknown = {}): ReturnType<DeclaredReport['read']> {
  const result = read(parameters)
  if ('value' in result) return result
  const failures = result.failures.map((failure) => ({
    ...failure,
    instancePath: `/parameters${failure.instancePath}`,
  }))
  return { failures }
}

/** Converts validation failures to field errors of the request body. */
export const declaredErrors = (failures: FastifySchemaValidationError[]): FieldError[] =>
  fromValidation(failures, 'body').errors ?? []

/**
 * Returns the test that selects the rows for a request; undefined for a report that is not declared with `report()`.
 * Throws if the author's condition throws.
 */
export const matchingRows = (
  declared: DeclaredReport | undefined,
  parameters: object,
  now: () => number,
): RowTest | undefined => declared?.matching(parameters as DeclaredValues, now)

interface Groups extends Omit<AggregateReadOptions, 'where'> {
  /** A condition that is always true; it makes the query interruptible (`engine.interruptible`). */
  interruptible: RawBuilder<boolean>
}

/** Returns how a report groups its rows, and the SQL of its cells; undefined if the report lists single rows. */
export function groupingOf(
  { engine }: Pick<Database, 'engine'>,
  { table, grouped }: DeclaredReport,
): Groups | undefined {
  if (grouped === undefined) return undefined
  const groups = grouped.filter(({ role }) => role === 'group')
  return {
    from: sql.table(table),
    interruptible: engine.interruptible(table),
    cells: grouped.map((column) => ({ term: cellOf(engine, column), type: column.type })),
    groups: groups.map(({ sql: term, type }) => ({ term: sql.raw(term), isText: type === 'string' })),
  }
}

function cellOf(engine: Database['engine'], { role, sql: text, type, decimal }: GroupedColumn): RawBuilder<unknown> {
  if (role === 'count') return sql`count(*)`
  if (role === 'sum' && type === 'number') return sql`coalesce(sum(${sql.raw(text)}), 0)`
  if (role === 'sum') return engine.exactSum(sql.raw(text), decimal?.scale ?? 0)
  if (role === 'avg') return engine.exactAverage(sql.raw(text), decimal?.scale ?? 0)
  const term = role === 'group' ? text : `${role}(${text})`
  return sql.raw(decimal ? decimalText(term, decimal.scale) : term)
}
