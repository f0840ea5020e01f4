import { existsSync } from 'node:fs'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'
import { indexPathOf } from '../text-index/path.ts'
import type { ScanAnswer, ScanQuestion } from './scan-threads.ts'

/** The scan thread: runs one statement after the other on its own read-only connection. */
const { path } = workerData as { path: string }
const db = new DatabaseSync(path, { readOnly: true, timeout: 1_000 })
db.exec('pragma cache_size = -4000; pragma temp_store = file; pragma trusted_schema = off')
// SQLite offers no interrupt here, but terminating a thread takes effect when its statement calls JavaScript.
db.function('scan_goes_on', () => 1)

let hasIndex = false

/** Attaches the search index if it exists and can be read; searches fall back to the table otherwise. */
function attachIndex(): void {
  const place = indexPathOf(path)
  if (hasIndex || !existsSync(place)) return
  try {
    db.prepare('attach database ? as search').run(place)
    db.prepare('select 1 from search.sqlite_schema').get()
    hasIndex = true
  } catch {
    if (db.prepare(`select 1 from pragma_database_list where name = 'search'`).get()) db.exec('detach database search')
  }
}

function answer({ sql, values }: ScanQuestion): ScanAnswer {
  try {
    attachIndex()
    return { rows: db.prepare(sql).all(...(values as SQLInputValue[])) }
  } catch (error) {
    const { message, errcode } = error as Error & { errcode?: number }
    return { error: { message, errcode } }
  }
}

parentPort?.on('message', (question: ScanQuestion) => parentPort?.postMessage(answer(question)))
