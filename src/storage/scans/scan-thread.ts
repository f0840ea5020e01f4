import { existsSync } from 'node:fs'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'
import { lowerPriority } from '../low-priority.ts'
import { indexPathOf } from '../sqlite/path.ts'
import type { TaskMessage } from '../thread-pool.ts'
import type { ScanOutcome, ScanTask } from './scan-threads.ts'

/** The entry point of a scan thread, which runs one statement at a time on its own read-only connection. */
const { path } = workerData as { path: string }
lowerPriority()
const db = new DatabaseSync(path, { readOnly: true, timeout: 1_000 })
db.exec('pragma cache_size = -4000; pragma temp_store = file; pragma trusted_schema = off')
// node:sqlite cannot interrupt a statement, but terminating a thread stops the statement at its next call to
// JavaScript.
db.function('scan_goes_on', () => 1)

let hasIndex = false

/** Attaches the text index if it exists and is readable; otherwise, searches read the table itself. */
function attachIndex(): void {
  const indexPath = indexPathOf(path)
  if (hasIndex || !existsSync(indexPath)) return
  try {
    db.prepare('attach database ? as search').run(indexPath)
    db.prepare('select 1 from search.sqlite_schema').get()
    hasIndex = true
  } catch {
    if (db.prepare(`select 1 from pragma_database_list where name = 'search'`).get()) db.exec('detach database search')
  }
}

function runScan({ sql, values }: ScanTask): ScanOutcome {
  try {
    attachIndex()
    return { rows: db.prepare(sql).all(...(values as SQLInputValue[])) }
  } catch (error) {
    const { message, errcode } = error as Error & { errcode?: number }
    return { error: { message, errcode } }
  }
}

parentPort?.on('message', (task: ScanTask) => {
  parentPort?.postMessage({ outcome: runScan(task) } satisfies TaskMessage<ScanOutcome>)
})
