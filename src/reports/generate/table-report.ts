import { snake } from '../../storage/rows/page-query.ts'
import type { ReportColumn } from '../formats/format.ts'
import type { ReportFilter, ReportKind } from '../report-types.ts'

/** Options for a report of all rows of one table with an integer `id` and `createdAt`. */
export interface TableReport {
  name: string
  scope: string | null
  table: string
  /** The fields that every requester may see. */
  columns: readonly ReportColumn[]
  /** Fields to filter by equality. */
  filters?: readonly string[]
  /** Numbers get `minX` and `maxX` filters; dates and instants `xAfter` and `xBefore`. */
  ranges?: readonly string[]
  /** Text fields with a case-folded companion column. */
  folded?: readonly string[]
  sorts?: readonly string[]
}

/** A table as a report type, with the filters and sorts of its list, each backed by an index. */
export function tableReport(report: TableReport): ReportKind {
  const { name, scope, table, columns, filters = [], ranges = [], folded = [], sorts = [] } = report
  const types = new Map(columns.map((column) => [column.name, column.type]))
  // A field that the report does not contain must not be probed by filtering or sorting either.
  const shown = (field: string) => types.has(field)
  const found = (field: string) => quoted(folded.includes(field) ? `${snake(field)}_key` : snake(field))
  const typeOf = (field: string) => filterType(types.get(field) as ReportColumn['type'])
  const equal = filters.filter(shown).map((field): ReportFilter => {
    return { name: field, type: typeOf(field), column: found(field), op: '=', folded: folded.includes(field) }
  })
  const bounds = ranges.filter(shown).flatMap((field) =>
    boundsOf(field, typeOf(field)).map(([as, op]): ReportFilter => {
      return { name: as, type: typeOf(field), column: quoted(snake(field)), op, folded: false }
    }),
  )
  return {
    ...{ name, title: capital(name.replaceAll('-', ' ')), scope, from: quoted(table), key: [quoted('id')] },
    columns: columns.map((column) => ({ ...column, sql: quoted(snake(column.name)) })),
    time: { column: 'created_at', type: 'instant' },
    filters: [...equal, ...bounds],
    sorts: Object.fromEntries(sorts.filter(shown).map((field) => [field, found(field)])),
  }
}

const filterType = (type: ReportColumn['type']): ReportFilter['type'] => {
  if (type === 'boolean') return 'boolean'
  return type === 'integer' || type === 'number' ? 'number' : 'string'
}

const boundsOf = (field: string, type: ReportFilter['type']): [name: string, op: ReportFilter['op']][] =>
  type === 'number'
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
