import { decimalText } from '../../storage/rows/column-codec.ts'
import { type ColumnNames, columnOfField, keyColumnOfField } from '../../storage/rows/column-names.ts'
import type { DeclaredReport } from '../declared-report.ts'
import type { ReportColumn } from '../formats/format.ts'
import type { ReportFilter } from '../report-filters.ts'
import type { ReportKind, ServedReport } from '../report-types.ts'

/** Options for a report on all rows of a table with an `id` and `createdAt`. */
export interface TableReport {
  name: string
  scope: string | null
  table: string
  /** The fields that every requester may see. */
  columns: readonly ReportColumn[]
  /** Fields to filter by equality. */
  filters?: readonly string[]
  /** Fields with range filters: `minX` and `maxX` for numbers, `xAfter` and `xBefore` for dates and instants. */
  ranges?: readonly string[]
  /** Text fields with a case-folded companion column. */
  folded?: readonly string[]
  sorts?: readonly string[]
  storedAs?: ColumnNames | undefined
}

/** Returns a report type for a table, with the same filters and sorts as the table's list, each backed by an index. */
export function tableReport(report: TableReport): ReportKind {
  const { name, scope, table, columns, filters = [], ranges = [], folded = [], sorts = [], storedAs } = report
  const types = new Map(columns.map((column) => [column.name, column.type]))
  // Fields that are not in the report must not be discoverable through filters or sorts.
  const isIncluded = (field: string) => types.has(field)
  const columnOf = (field: string) =>
    quoted(folded.includes(field) ? keyColumnOfField(field, storedAs) : columnOfField(field, storedAs))
  const plainColumnOf = (field: string) => quoted(columnOfField(field, storedAs))
  const typeOf = (field: string) => filterType(types.get(field) as ReportColumn['type'])
  const decimals = new Map(columns.flatMap(({ name, decimal }) => (decimal ? [[name, { decimal }]] : [])))
  const equal = filters.filter(isIncluded).map((field): ReportFilter => {
    return {
      name: field,
      type: typeOf(field),
      column: columnOf(field),
      op: '=',
      folded: folded.includes(field),
      ...(types.get(field) === 'uuid' && { isUuid: true }),
      ...decimals.get(field),
    }
  })
  const bounds = ranges.filter(isIncluded).flatMap((field) =>
    boundsOf(field, typeOf(field), decimals.has(field)).map(([as, op]): ReportFilter => {
      return { name: as, type: typeOf(field), column: plainColumnOf(field), op, folded: false, ...decimals.get(field) }
    }),
  )
  return {
    ...{ name, title: capital(name.replaceAll('-', ' ')), scope, from: quoted(table), key: [quoted('id')] },
    columns: columns.map((column) => ({ ...column, sql: cellSql(column, plainColumnOf(column.name)) })),
    time: { column: 'created_at', type: 'instant' },
    filters: [...equal, ...bounds],
    sorts: Object.fromEntries(sorts.filter(isIncluded).map((field) => [field, columnOf(field)])),
  }
}

/** Returns a cell's SQL: the column, or a decimal as text. */
const cellSql = ({ decimal }: ReportColumn, column: string) => (decimal ? decimalText(column, decimal.scale) : column)

const filterType = (type: ReportColumn['type']): ReportFilter['type'] => {
  if (type === 'boolean') return 'boolean'
  return type === 'integer' || type === 'number' ? 'number' : 'string'
}

const boundsOf = (
  field: string,
  type: ReportFilter['type'],
  isDecimal: boolean,
): [name: string, op: ReportFilter['op']][] =>
  type === 'number' || isDecimal
    ? [
        [`min${capital(field)}`, '>='],
        [`max${capital(field)}`, '<='],
      ]
    : [
        [`${field}After`, '>'],
        [`${field}Before`, '<'],
      ]

const quoted = (name: string) => `"${name}"`
const capital = (name: string) => `${name[0]?.toUpperCase()}${name.slice(1)}`

/** Returns the report type of a report that is declared with `report()`. */
export function typedReport(declared: DeclaredReport): ServedReport {
  const { name, title, scope, table, storedAs, columns, grouped = [] } = declared
  const { from, key, columns: own, ...plain } = tableReport({ name, scope, table, storedAs, columns: columns ?? [] })
  return {
    ...{ name, title: title ?? plain.title ?? name, scope, from, typed: declared },
    ...(columns ? { columns: own, key } : { columns: grouped, key: [] }),
  }
}
