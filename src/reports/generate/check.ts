import { uuidExample } from '../../http/uuid.ts'
import { DefinitionError } from '../../startup-errors.ts'
import type { Database } from '../../storage/database.ts'
import { openSnapshot } from '../../storage/open.ts'
import type { FilterValue, ReportFilter } from '../report-filters.ts'
import { type ReportKind, type ReportQuery, readOf } from '../report-types.ts'

/** A component of a report type: its name in error messages, its SQL, and the smallest report that contains it. */
interface Part {
  name: string
  text: string
  kind: ReportKind
  query?: ReportQuery
}

const viewer = { clientId: 'cli_check', subject: 'cli_check', isAdmin: false }

/**
 * Makes the database compile the SQL of report types without running it. If any SQL is invalid, throws a
 * `DefinitionError` with one line per error. Each line names the report and the component and includes the database's
 * error.
 */
export async function checkReports(db: Database, kinds: readonly ReportKind[]): Promise<void> {
  const errors = kinds.length > 0 ? await errorsOf(db, kinds) : []
  if (errors.length > 0) throw new DefinitionError(errors)
}

async function errorsOf(db: Database, kinds: readonly ReportKind[]): Promise<string[]> {
  const snapshot = await openSnapshot(db.url)
  const errorOf = async (report: ReportKind, { name, text, kind, query = {} }: Part): Promise<string[]> => {
    try {
      await snapshot.prepare(readOf(db, kind, query, viewer))
      return []
    } catch (error) {
      if (db.engine.isUnavailable(error)) throw error
      const reason = error instanceof Error ? error.message : String(error)
      return [`service: the report '${report.name}' has wrong SQL in ${name} (${text}): ${reason}`]
    }
  }
  try {
    const errors: string[] = []
    for (const kind of kinds) {
      for (const parts of [[sourceOf(kind)], partsOf(kind), [wholeOf(kind)]]) {
        const failed: string[] = []
        for (const part of parts) failed.push(...(await errorOf(kind, part)))
        errors.push(...failed)
        // Stop here: components that depend on an invalid component would only cause redundant errors.
        if (failed.length > 0) break
      }
    }
    return errors
  } finally {
    await snapshot.close()
  }
}

/**
 * Returns a copy of the report that reads from the same source but selects only a constant, so that each part can be
 * checked on its own.
 */
const bare = ({ name, from, scope }: ReportKind): ReportKind => ({
  ...{ name, from, scope, key: ['1'] },
  columns: [{ name: 'one', type: 'integer', sql: '1' }],
})

const sourceOf = (kind: ReportKind): Part => ({ name: 'from', text: oneLine(kind.from), kind: bare(kind) })

/** Lists all components that depend on `from`. */
function partsOf(report: ReportKind): Part[] {
  const { columns, key, time, owned, filters = [], sorts = {} } = report
  const kind = bare(report)
  return [
    ...columns.map((column) => ({
      ...{ name: `the column '${column.name}'`, text: column.sql, kind: { ...kind, columns: [column] } },
    })),
    ...key.map((term) => ({ name: 'key', text: term, kind: { ...kind, key: [term] } })),
    ...(time ? [{ name: 'time', text: time.column, kind: { ...kind, time }, query: periodOf(time) }] : []),
    ...(owned ? [{ name: 'owned', text: ownersOf(owned), kind: { ...kind, owned } }] : []),
    ...filters.map((filter) => ({
      ...{ name: `the filter '${filter.name}'`, text: `${filter.column} ${filter.op} …` },
      ...{ kind: { ...kind, filters: [filter] }, query: { filter: { [filter.name]: sample(filter) } } },
    })),
    ...Object.entries(sorts).map(([name, term]) => ({
      ...{ name: `the sort '${name}'`, text: term, kind: { ...kind, sorts }, query: { sort: [name] } },
    })),
  ]
}

/** Returns the complete report, with every condition and every sort. */
const wholeOf = (kind: ReportKind): Part => ({
  ...{ name: 'all of its parts together', text: oneLine(kind.from), kind },
  query: {
    ...(kind.time && periodOf(kind.time)),
    filter: Object.fromEntries((kind.filters ?? []).map((filter) => [filter.name, sample(filter)])),
    sort: Object.keys(kind.sorts ?? {}),
  },
})

const periodOf = ({ type }: NonNullable<ReportKind['time']>): ReportQuery =>
  type === 'date'
    ? { from: '2000-01-01', to: '2000-01-02' }
    : { from: '2000-01-01T00:00:00.000Z', to: '2000-01-02T00:00:00.000Z' }

const ownersOf = ({ client, subject }: NonNullable<ReportKind['owned']>) => [client, subject].filter(Boolean).join(', ')

const samples: Record<ReportFilter['type'], FilterValue> = { string: 'a', number: 1, boolean: true }
const sample = ({ type, decimal, isUuid }: ReportFilter) => (isUuid ? uuidExample : decimal ? '0' : samples[type])

const oneLine = (text: string) => text.trim().replace(/\s+/g, ' ')
