import type { ReportKind } from '../reports/report-types.ts'
import type { Declaration } from '../resources/declaration.ts'
import { isReport, type Report } from '../resources/reports/report.ts'

/** The report types that every service has. */
const serviceReports = ['activity', 'deliveries']

/** Returns the errors in the report types of a service that has these resources. */
export function reportTypeErrors(
  declarations: readonly Declaration[],
  reports: readonly (ReportKind | Report)[],
): string[] {
  const names = [...serviceReports, ...declarations.map(({ name }) => name), ...reports.map(({ name }) => name)]
  return [
    ...duplicates(names).map((name) => `service: the report type ${name} is declared twice`),
    ...reports
      .filter(({ name }) => !/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name))
      .map(
        ({ name }) =>
          `service: the report type '${name}' must have a lower-case name such as 'sales' or 'sales-by-day'`,
      ),
    ...reports.filter(isReport).flatMap((one) => resourceErrors(one, declarations)),
  ]
}

function resourceErrors({ name, of }: Report, declarations: readonly Declaration[]): string[] {
  return declarations.includes(of)
    ? []
    : [`service: the report '${name}' reads ${of.path}, which resources must include`]
}

/** Returns the duplicate names, without repetition. */
export const duplicates = (names: readonly string[]): string[] => [
  ...new Set(names.filter((name, at) => names.indexOf(name) !== at)),
]
