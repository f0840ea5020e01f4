import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import type { LongRead, Statement } from './long-read.ts'
import type { Snapshot } from './snapshot.ts'

const lockWaitMs = 5_000

/** One moment of a SQLite file: a read transaction, read in keyset pages, which is faster than stepping row by row. */
export function sqliteSnapshot(path: string): Snapshot {
  const db = new DatabaseSync(path, { readOnly: true, timeout: lockWaitMs })
  db.exec('pragma cache_size = -4000; pragma temp_store = file; pragma trusted_schema = off; begin')
  const prepare = ({ sql, values }: Statement) => {
    const statement = db.prepare(sql)
    statement.setReturnArrays(true)
    return (keys: readonly unknown[] = []) => statement.all(...bound(values, keys)) as unknown as unknown[][]
  }
  return {
    count: async ({ count }) => Number(prepare(count)()[0]?.[0]),
    pages: async function* ({ firstPage, nextPage, keyAt, pageRows, types }: LongRead) {
      const truths = types.flatMap((type, at) => (type === 'boolean' ? [at] : []))
      let page = prepare(firstPage)()
      const next = prepare(nextPage)
      while (page.length > 0) {
        const last = page[page.length - 1] as unknown[]
        const keys = keyAt.map((at) => last[at])
        if (truths.length > 0) for (const row of page) readTruths(row, truths)
        yield page
        page = page.length < pageRows ? [] : next(keys)
      }
    },
    close: async () => db.close(),
  }
}

const bound = (values: readonly unknown[], keys: readonly unknown[]): SQLInputValue[] =>
  values.map((value) => {
    const isKey = typeof value === 'object' && value !== null && 'key' in value
    return (isKey ? keys[(value as { key: number }).key] : value) as SQLInputValue
  })

/** Tables keep truth as 1 or 0. */
function readTruths(row: unknown[], places: readonly number[]): void {
  for (const at of places) if (row[at] !== null) row[at] = row[at] === 1
}
