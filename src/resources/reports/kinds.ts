import type { Kysely } from 'kysely'
import type { Queryable, Snapshot } from '../../db/open.ts'

/** A column of a report; a cell of it is a value of the type, or null. JSON comes as its text. */
export interface ReportColumn {
  name: string
  type: 'integer' | 'number' | 'string' | 'instant' | 'boolean' | 'json'
}

/**
 * A report type: its columns, and its rows in pages read from one moment of the database. Cells stand in the order of
 * the columns; a row may carry more cells behind them. A `Problem` thrown here fails the task for good and is shown.
 */
export interface ReportKind {
  name: string
  /** The scope that reading the same rows takes, if any: a report is no way around it. */
  scope: string | null
  columns: readonly ReportColumn[]
  pages: (snapshot: Snapshot) => AsyncIterable<unknown[][]>
  /** How many rows there are, to tell the progress by. */
  count: (snapshot: Snapshot) => Promise<number>
}

/** A report of all rows of one table with an integer `id` from 1. */
export interface TableReport {
  /** Compiles the queries for its engine. */
  db: Queryable
  name: string
  scope?: string | null
  table: string
  /** `column` is the SQL name; without it the column is named like the field. */
  columns: readonly (ReportColumn & { column?: string })[]
}

const pageRows = 500

/** The report of a table, read by keyset on `id`, which need not be one of its columns. */
export function tableReport({ db, name, scope = null, table, columns }: TableReport): ReportKind {
  const rows = (db as unknown as Kysely<Record<string, Record<string, unknown>>>).selectFrom(table)
  const selected = columns.map((column) => column.column ?? column.name)
  if (!selected.includes('id')) selected.push('id')
  const page = rows.select(selected).where('id', '>', 0).orderBy('id').limit(pageRows).compile()
  const total = rows.select((row) => row.fn.countAll().as('count')).compile()
  const idAt = selected.indexOf('id')
  const truths = columns.flatMap(({ type }, at) => (type === 'boolean' ? [at] : []))

  async function* pages(snapshot: Snapshot): AsyncIterable<unknown[][]> {
    const [, ...rest] = page.parameters
    for (let after: unknown = 0; ; ) {
      const found = await snapshot.page(page.sql, [after, ...rest])
      if (truths.length > 0) for (const row of found) readTruths(row, truths)
      if (found.length > 0) yield found
      if (found.length < pageRows) return
      after = found[found.length - 1]?.[idAt]
    }
  }

  return {
    name,
    scope,
    columns: columns.map((column) => ({ name: column.name, type: column.type })),
    pages,
    count: async (snapshot) => Number((await snapshot.page(total.sql, total.parameters))[0]?.[0]),
  }
}

/** Tables keep truth as 1 or 0. */
function readTruths(row: unknown[], places: readonly number[]): void {
  for (const at of places) if (row[at] !== null) row[at] = row[at] === 1
}
