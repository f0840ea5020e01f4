import type { DeclaredReport } from '../declared-report.ts'
import type { ServedReport } from '../report-types.ts'
import { tableReport } from './table-report.ts'

/** Returns a declared report as a report type. */
export function typedReport(declared: DeclaredReport): ServedReport {
  const { name, title, scope, table, storedAs, columns, grouped = [] } = declared
  const { from, key, columns: own, ...plain } = tableReport({ name, scope, table, storedAs, columns: columns ?? [] })
  return {
    ...{ name, title: title ?? plain.title ?? name, scope, from, typed: declared },
    ...(columns ? { columns: own, key } : { columns: grouped, key: [] }),
  }
}
