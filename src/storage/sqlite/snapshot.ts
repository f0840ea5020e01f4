import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import type { LongRead, Statement } from '../snapshots/long-read.ts'
import { type CsvBlock, readAggregates, type Snapshot } from '../snapshots/snapshot.ts'
import { defineExactSums } from './exact-sum.ts'

const lockWaitMs = 5_000

type Prepare = (statement: Statement) => (keys?: readonly unknown[]) => unknown[][]

/**
 * Opens a snapshot of a SQLite file: a read transaction, read in keyset pages, which is faster than iterating over
 * rows.
 */
export function sqliteSnapshot(path: string): Snapshot {
  const db = new DatabaseSync(path, { readOnly: true, timeout: lockWaitMs })
  db.exec('pragma cache_size = -4000; pragma temp_store = file; pragma trusted_schema = off; begin')
  // Always returns 1. SQLite calls it because of `engine.interruptible`; when the thread is terminated, the statement
  // stops at its next call.
  db.function('scan_goes_on', () => 1)
  defineExactSums(db)
  const prepare: Prepare = ({ sql, values }) => {
    const statement = db.prepare(sql)
    statement.setReturnArrays(true)
    return (keys = []) => statement.all(...bound(values, keys)) as unknown as unknown[][]
  }
  return {
    prepare: async ({ whole, firstPage, nextPage, count, csvPages }) => {
      const pageStatements = csvPages ? [csvPages.first, csvPages.next] : []
      for (const { sql } of [count, whole, firstPage, nextPage, ...pageStatements]) db.prepare(sql)
    },
    count: async ({ count }) => Number(prepare(count)()[0]?.[0]),
    pages: async function* (read: LongRead) {
      if (read.isAggregated) return yield* groups(db, read)
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

/** Yields groups while the statement runs, in pages that are no larger than those of other reads. */
function* groups(db: DatabaseSync, { whole, types, pageRows }: LongRead): Iterable<unknown[][]> {
  const statement = db.prepare(whole.sql)
  statement.setReturnArrays(true)
  const booleans = types.flatMap((type, at) => (type === 'boolean' ? [at] : []))
  let page: unknown[][] = []
  for (const row of statement.iterate(...bound(whole.values, []))) {
    readBooleans(row as unknown as unknown[], booleans)
    page.push(row as unknown as unknown[])
    if (page.length < pageRows) continue
    yield readAggregates(page, types)
    page = []
  }
  if (page.length > 0) yield readAggregates(page, types)
}

/**
 * Creates the reader of pages. Given the previous page's last key, it reads the next page, otherwise the first. It
 * returns the rows and the key of the last row.
 */
function pageReader(prepare: Prepare, { firstPage, nextPage, keyAt, types }: LongRead) {
  const booleans = types.flatMap((type, at) => (type === 'boolean' ? [at] : []))
  const first = prepare(firstPage)
  const next = prepare(nextPage)
  return (keys: readonly unknown[] | undefined) => {
    const rows = keys ? next(keys) : first()
    const last = rows.at(-1)
    if (booleans.length > 0) for (const row of rows) readBooleans(row, booleans)
    return { rows, keys: last && keyAt.map((at) => last[at]) }
  }
}

/**
 * Maximum number of pages to read as rows before trying CSV again. After a page whose CSV records might be wrong, one
 * page is read as rows; if the next attempt also fails, two pages, then four, and so on up to this number.
 */
const maxBackoff = 64

/** Yields pages as CSV records if these are certain to be correct, otherwise as rows. */
async function* csvPages(
  prepare: Prepare,
  read: LongRead,
  { first, next }: NonNullable<LongRead['csvPages']>,
): AsyncIterable<CsvBlock | unknown[][]> {
  const [firstText, nextText, rowsAfter] = [prepare(first), prepare(next), pageReader(prepare, read)]
  let keys: unknown[] | undefined
  let backoff = 0
  let skipped = 0
  for (let count = read.pageRows; count === read.pageRows; ) {
    const page = skipped < backoff ? undefined : recordsOf(keys ? nextText(keys) : firstText())
    if (page) {
      ;({ count, keys } = page)
      backoff = skipped = 0
      if (count > 0) yield { rows: count, records: page.records }
      continue
    }
    if (skipped < backoff) skipped += 1
    else [backoff, skipped] = [Math.min(backoff * 2 || 1, maxBackoff), 0]
    const { rows, keys: last } = rowsAfter(keys)
    count = rows.length
    keys = last
    if (count > 0) yield rows
  }
}

/** Returns the CSV records of a page that was read as a single row; undefined if they might be wrong. */
function recordsOf([row]: unknown[][]) {
  const [count, key, records, checked] = row as [number, unknown, string | null, string | null]
  if (!isCorrect(records ?? '', checked ?? '')) return undefined
  return { count, keys: [key], records: records ?? '' }
}

/**
 * Returns true if a page's records, as SQLite formatted them, are certain to equal those that the service would write
 * (see `csvRecord`).
 */
const isCorrect = (records: string, checked: string): boolean =>
  !(records.includes('\x1a') || checked.includes('"') || checked.includes('\n') || checked.includes('\r'))

const bound = (values: readonly unknown[], keys: readonly unknown[]): SQLInputValue[] =>
  values.map((value) => {
    const isKey = typeof value === 'object' && value !== null && 'key' in value
    return (isKey ? keys[(value as { key: number }).key] : value) as SQLInputValue
  })

/** Converts booleans, which are stored as 1 or 0. */
function readBooleans(row: unknown[], positions: readonly number[]): void {
  for (const at of positions) if (row[at] !== null) row[at] = row[at] === 1
}
