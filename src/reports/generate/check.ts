import { DefinitionError } from '../../startup-errors.ts'
import type { Database } from '../../storage/database.ts'
import { openSnapshot } from '../../storage/open.ts'
import { type FilterValue, type ReportFilter, type ReportKind, type ReportQuery, readOf } from '../report-types.ts'

/** One part of a report type: its name in messages, its SQL, and the smallest report that contains it. */
interface Part {
  name: string
  text: string
  kind: ReportKind
  asked?: ReportQuery
}

const viewer = { clientId: 'cli_check', subject: 'cli_check', isAdmin: false }

/**
 * Has the database compile the SQL of report types without running it. Throws `DefinitionError`, in which each line names
 * the report, the part and the database's error.
 */
export async function refuseWrongReports(db: Database, kinds: readonly ReportKind[]): Promise<void> {
  const mistakes = kinds.length > 0 ? await mistakesOf(db, kinds) : []
  if (mistakes.length > 0) throw new DefinitionError(mistakes)
}

async function mistakesOf(db: Database, kinds: readonly ReportKind[]): Promise<string[]> {
  const snapshot = await openSnapshot(db.url)
  const mistakeOf = async (report: ReportKind, { name, text, kind, asked = {} }: Part): Promise<string[]> => {
    try {
      await snapshot.prepare(readOf(db, kind, asked, viewer))
      return []
    } catch (error) {
      if (db.engine.isUnavailable(error)) throw error
      const reason = error instanceof Error ? error.message : String(error)
      return [`service: the report '${report.name}' has wrong SQL in ${name} (${text}): ${reason}`]
    }
  }
  try {
    const mistakes: string[] = []
    for (const kind of kinds) {
      for (const parts of [[sourceOf(kind)], partsOf(kind), [wholeOf(kind)]]) {
        const wrong: string[] = []
        for (const part of parts) wrong.push(...(await mistakeOf(kind, part)))
        mistakes.push(...wrong)
        // Parts that depend on a wrong part fail too, without new information.
        if (wrong.length > 0) break
      }
    }
    return mistakes
  } finally {
    await snapshot.close()
  }
}

/** The report's rows without its columns. */
const bare = ({ name, from, scope }: ReportKind): ReportKind => ({
  ...{ name, from, scope, key: ['1'] },
  columns: [{ name: 'one', type: 'integer', sql: '1' }],
})

const sourceOf = (kind: ReportKind): Part => ({ name: 'from', text: oneLine(kind.from), kind: bare(kind) })

/** All parts that depend on `from`. */
function partsOf(report: ReportKind): Part[] {
  const { columns, key, time, owned, filters = [], sorts = {} } = report
  const kind = bare(report)
  return [
    ...columns.map((column) => ({
      ...{ name: `the column '${column.name}'`, text: column.sql, kind: { ...kind, columns: [column] } },
    })),
    ...key.map((term) => ({ name: 'key', text: term, kind: { ...kind, key: [term] } })),
    ...(time ? [{ name: 'time', text: time.column, kind: { ...kind, time }, asked: periodOf(time) }] : []),
    ...(owned ? [{ name: 'owned', text: ownersOf(owned), kind: { ...kind, owned } }] : []),
    ...filters.map((filter) => ({
      ...{ name: `the filter '${filter.name}'`, text: `${filter.column} ${filter.op} …` },
      ...{ kind: { ...kind, filters: [filter] }, asked: { filter: { [filter.name]: sample(filter) } } },
    })),
    ...Object.entries(sorts).map(([name, term]) => ({
      ...{ name: `the sort '${name}'`, text: term, kind: { ...kind, sorts }, asked: { sort: [name] } },
    })),
  ]
}

/** The complete report, with all conditions and all sorts. */
const wholeOf = (kind: ReportKind): Part => ({
  ...{ name: 'all of its parts together', text: oneLine(kind.from), kind },
  asked: {
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
const sample = ({ type }: ReportFilter) => samples[type]

const oneLine = (text: string) => text.trim().replace(/\s+/g, ' ')
