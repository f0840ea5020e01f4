import type { ReportColumn } from './formats/format.ts'
import type { ReportFilter, ReportKind } from './kinds.ts'

/** The report of all rows of one table with an integer `id` and `createdAt`. */
export interface TableReport {
  name: string
  scope: string | null
  table: string
  /** The fields that everybody who may ask may see. */
  columns: readonly ReportColumn[]
  /** Fields found by equality. */
  filters?: readonly string[]
  /** Number fields that can be bounded as `minX` and `maxX`. */
  ranges?: readonly string[]
  /** Text fields with a folded companion column. */
  folded?: readonly string[]
  sorts?: readonly string[]
}

/** A table as a report type, with the filters and sorts of its list: an index stands behind each. */
export function tableReport(report: TableReport): ReportKind {
  const { name, scope, table, columns, filters = [], ranges = [], folded = [], sorts = [] } = report
  const types = new Map(columns.map((column) => [column.name, column.type]))
  // A field that the report does not show cannot be probed by filtering or sorting either.
  const shown = (field: string) => types.has(field)
  const found = (field: string) => (folded.includes(field) ? `${snake(field)}_key` : snake(field))
  const equal = filters.filter(shown).map((field) => filterOf(field, field, found(field), '='))
  const bounds = ranges
    .filter(shown)
    .flatMap((field) => [
      filterOf(`min${capital(field)}`, field, snake(field), '>='),
      filterOf(`max${capital(field)}`, field, snake(field), '<='),
    ])
  function filterOf(as: string, field: string, column: string, op: ReportFilter['op']): ReportFilter {
    const type = ['integer', 'number'].includes(types.get(field) as string) ? 'number' : 'string'
    return { name: as, type, column, op, folded: folded.includes(field) }
  }
  return {
    ...{ name, title: capital(name), scope, from: `"${table}"`, key: ['id'], owned: null },
    columns: columns.map((column) => ({ ...column, sql: snake(column.name) })),
    time: { column: 'created_at', type: 'instant' },
    filters: [...equal, ...bounds],
    sorts: Object.fromEntries(sorts.filter(shown).map((field) => [field, found(field)])),
  }
}

const snake = (field: string) => field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
const capital = (name: string) => `${name[0]?.toUpperCase()}${name.slice(1)}`
