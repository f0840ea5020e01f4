import type { Database } from '../storage/database.ts'
import { iso } from '../storage/ids.ts'
import { type ResultStore, ResultsUnavailable } from './files/store.ts'
import { lastEndOver } from './tasks.ts'

export interface ExpireOptions {
  db: Database
  results: ResultStore
  now: () => number
  /** How long the record of a finished task is kept. */
  taskSeconds: number
  /** Receives what kept a result from being removed. */
  onError: (error: unknown) => void
}

/** Rows in one transaction. */
export const pageRows = 500
/** Pages in one run, so that other sweeps have their turn. */
const maxPages = 20
/** Files that are removed at a time. */
const atOnce = 10

/** A task whose file, or record, is over; `at` is the instant when it was. */
interface Over {
  id: string
  at: string
  resultKey: string | null
}
type Position = Pick<Over, 'id' | 'at'>

/** One kind of removal: its rows in the order of `at` and `id`, and what becomes of those whose file is gone. */
interface Removal {
  page: (after: Position) => Promise<Over[]>
  commit: (ids: string[]) => Promise<unknown>
}

const start: Position = { at: '', id: '' }

/**
 * A sweep that removes results that have expired and records of tasks that ended long ago, and returns how many of both. A
 * file that cannot be removed is reported and passed over; it is tried again once the sweep has come to the end.
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
 * Goes through the rows page by page. Each run goes on where the one before it stopped, behind the files that failed, and
 * begins again once it has come to the end. A store that is unavailable ends the run.
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

/** The files go before their rows change: a crash in between leaves rows that are looked at again. */
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
