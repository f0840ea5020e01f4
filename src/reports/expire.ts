import { type ResultStore, ResultsUnavailable } from '../files/store.ts'
import type { Database } from '../storage/database.ts'
import { iso } from '../storage/ids.ts'
import { maxSwept } from '../storage/sweep.ts'
import { lastEndOver } from './tasks.ts'

export interface ExpireOptions {
  db: Database
  results: ResultStore
  now: () => number
  /** How long a finished task's record is retained, in seconds. */
  taskSeconds: number
  /** Called with each error that prevents a result from being removed. */
  onError: (error: unknown) => void
}

/** Maximum rows per transaction. */
export const pageRows = maxSwept
/** Maximum pages per run, so that other sweeps also get to run. */
const maxPages = 100
/** Maximum number of files removed concurrently. */
const atOnce = 10

/** A task with an expired result or record; `at` is when the result expired or, for a record, when the task ended. */
interface Over {
  id: string
  at: string
  resultKey: string | null
}
type Position = Pick<Over, 'id' | 'at'>

/**
 * One kind of removal: `page` reads expired rows in order of `at` and `id`, and `commit` updates or deletes the rows
 * whose files have been removed.
 */
interface Removal {
  page: (after: Position) => Promise<Over[]>
  commit: (ids: string[]) => Promise<unknown>
}

const start: Position = { at: '', id: '' }

/**
 * Returns a sweep that removes expired results, and the records of tasks that ended long ago. The sweep resolves to the
 * number of removed results and records. If a file cannot be removed, the sweep reports the error, skips the file, and
 * retries it after reaching the end.
 */
export function expireReports(options: ExpireOptions): () => Promise<number> {
  const walks = [walk(options, results(options)), walk(options, records(options))]
  return async () => {
    let removed = 0
    for (const run of walks) removed += await run()
    return removed
  }
}

function results({ db, now }: ExpireOptions): Removal {
  return {
    page: ({ at, id }) =>
      db.read
        .selectFrom('tasks')
        .select(['id', 'expiresAt as at', 'resultKey'])
        .where('resultKey', 'is not', null)
        .where('expiresAt', '<=', iso(now()))
        .where((row) => row(row.refTuple('expiresAt', 'id'), '>', row.tuple(at, id)))
        .orderBy('expiresAt')
        .orderBy('id')
        .limit(pageRows)
        .$castTo<Over>()
        .execute(),
    commit: (ids) =>
      db.write((tx) => tx.updateTable('tasks').set({ resultKey: null }).where('id', 'in', ids).execute()),
  }
}

function records(options: ExpireOptions): Removal {
  const { db } = options
  return {
    page: ({ at, id }) =>
      db.read
        .selectFrom('tasks')
        .select(['id', 'completedAt as at', 'resultKey'])
        .where('completedAt', '<=', lastEndOver(options))
        .where((row) => row(row.refTuple('completedAt', 'id'), '>', row.tuple(at, id)))
        .orderBy('completedAt')
        .orderBy('id')
        .limit(pageRows)
        .$castTo<Over>()
        .execute(),
    commit: (ids) => db.write((tx) => tx.deleteFrom('tasks').where('id', 'in', ids).execute()),
  }
}

/**
 * Processes the rows page by page. Each run continues where the previous run stopped, skipping files that failed, and
 * starts over after reaching the end. If the store is unavailable, the run stops early.
 */
function walk(options: ExpireOptions, { page, commit }: Removal): () => Promise<number> {
  let position = start
  return async () => {
    let removed = 0
    for (let pages = 0; pages < maxPages; pages++) {
      const rows = await page(position)
      const { gone, isAway, last } = await removeFiles(options, rows)
      if (gone.length > 0) await commit(gone)
      removed += gone.length
      const isEnd = rows.length < pageRows && !isAway
      position = isEnd ? start : (last ?? position)
      if (isEnd || isAway) break
    }
    return removed
  }
}

/** Removes files before their rows change. After a crash between these steps, the rows are processed again. */
async function removeFiles({ results, onError }: ExpireOptions, rows: Over[]) {
  const gone: string[] = []
  let isAway = false
  let at = 0
  const remove = async ({ id, resultKey }: Over) => {
    try {
      if (resultKey !== null) await results.remove(resultKey)
      gone.push(id)
    } catch (error) {
      onError(new Error(`The result of the task ${id} could not be removed`, { cause: error }))
      isAway ||= error instanceof ResultsUnavailable
    }
  }
  for (; at < rows.length && !isAway; at += atOnce) await Promise.all(rows.slice(at, at + atOnce).map(remove))
  return { gone, isAway, last: rows[Math.min(at, rows.length) - 1] }
}
