import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import type { LongRead, Statement } from '../snapshots/long-read.ts'
import type { CsvBlock, Snapshot } from '../snapshots/snapshot.ts'

const lockWaitMs = 5_000

type Prepare = (statement: Statement) => (keys?: readonly unknown[]) => unknown[][]

/** A snapshot of a SQLite file: a read transaction, read in keyset pages, which is faster than stepping row by row. */
export function sqliteSnapshot(path: string): Snapshot {
  const db = new DatabaseSync(path, { readOnly: true, timeout: lockWaitMs })
  db.exec('pragma cache_size = -4000; pragma temp_store = file; pragma trusted_schema = off; begin')
  const prepare: Prepare = ({ sql, values }) => {
    const statement = db.prepare(sql)
    statement.setReturnArrays(true)
    return (keys = []) => statement.all(...bound(values, keys)) as unknown as unknown[][]
  }
  return {
    prepare: async ({ whole, firstPage, nextPage, count, csvPages }) => {
      const ofPages = csvPages ? [csvPages.first, csvPages.next] : []
      for (const { sql } of [count, whole, firstPage, nextPage, ...ofPages]) db.prepare(sql)
    },
    count: async ({ count }) => Number(prepare(count)()[0]?.[0]),
    pages: async function* (read: LongRead) {
      const next = pageReader(prepare, read)
      let keys: unknown[] | undefined
      for (let count = read.pageRows; count === read.pageRows; ) {
        const page = next(keys)
        count = page.rows.length
        keys = page.keys
        if (count > 0) yield page.rows
      }
    },
    csv: (read) => read.csvPages && csvPages(prepare, read, read.csvPages),
    close: async () => db.close(),
  }
}

/** Reads the page after a key, or the first page without one; returns its rows and the key of its last row. */
function pageReader(prepare: Prepare, { firstPage, nextPage, keyAt, types }: LongRead) {
  const truths = types.flatMap((type, at) => (type === 'boolean' ? [at] : []))
  const first = prepare(firstPage)
  const next = prepare(nextPage)
  return (keys: readonly unknown[] | undefined) => {
    const rows = keys ? next(keys) : first()
    const last = rows.at(-1)
    if (truths.length > 0) for (const row of rows) readTruths(row, truths)
    return { rows, keys: last && keyAt.map((at) => last[at]) }
  }
}

/**
 * After a page that must be read as rows, the next one is too; after another failed attempt the next two, and so on up to
 * this.
 */
const maxUntried = 64

/** Pages as CSV records where these are certain to be correct, else as rows. */
async function* csvPages(
  prepare: Prepare,
  read: LongRead,
  { first, next }: NonNullable<LongRead['csvPages']>,
): AsyncIterable<CsvBlock | unknown[][]> {
  const [firstText, nextText, rowsAfter] = [prepare(first), prepare(next), pageReader(prepare, read)]
  let keys: unknown[] | undefined
  let untried = 0
  let skipped = 0
  for (let count = read.pageRows; count === read.pageRows; ) {
    const page = skipped < untried ? undefined : textOf(keys ? nextText(keys) : firstText())
    if (page) {
      ;({ count, keys } = page)
      untried = skipped = 0
      if (count > 0) yield { rows: count, records: page.records }
      continue
    }
    if (skipped < untried) skipped += 1
    else [untried, skipped] = [Math.min(untried * 2 || 1, maxUntried), 0]
    const { rows, keys: last } = rowsAfter(keys)
    count = rows.length
    keys = last
    if (count > 0) yield rows
  }
}

/** The records of a page read as one row; undefined when they might be wrong. */
function textOf([row]: unknown[][]) {
  const [count, key, records, looked] = row as [number, unknown, string | null, string | null]
  if (!isSure(records ?? '', looked ?? '')) return undefined
  return { count, keys: [key], records: records ?? '' }
}

/** Whether a page's records equal those the CSV format makes of its rows (see `csvRecord`, which threads do not load). */
const isSure = (records: string, looked: string): boolean =>
  !(records.includes('\x1a') || looked.includes('"') || looked.includes('\n') || looked.includes('\r'))

const bound = (values: readonly unknown[], keys: readonly unknown[]): SQLInputValue[] =>
  values.map((value) => {
    const isKey = typeof value === 'object' && value !== null && 'key' in value
    return (isKey ? keys[(value as { key: number }).key] : value) as SQLInputValue
  })

/** Booleans are stored as 1 or 0. */
function readTruths(row: unknown[], places: readonly number[]): void {
  for (const at of places) if (row[at] !== null) row[at] = row[at] === 1
}
