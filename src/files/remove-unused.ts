import type { Database } from '../storage/database.ts'
import { abandonUploads, forgetFiles, postponeRemoval, removableFiles } from '../storage/stored-files.ts'
import { maxSwept } from '../storage/sweep.ts'
import { type ResultStore, ResultsUnavailable } from './store.ts'

export interface RemoveUnusedOptions {
  db: Database
  store: ResultStore
  now: () => number
  /** Called with each error that prevents a file from being removed. */
  onError: (error: unknown) => void
}

/** Maximum pages per run, so that other sweeps also get to run. */
const maxPages = 100

/**
 * Removes the files of abandoned uploads and dropped tables, and files that no row has used for at least an hour.
 * Removes each file before its record, so that after a crash between the two steps, the next run finds the record.
 * Returns the number of files removed.
 */
export async function removeUnusedFiles({ db, store, now, onError }: RemoveUnusedOptions): Promise<number> {
  await abandonUploads(db, now())
  let removed = 0
  for (let page = 0; page < maxPages; page++) {
    const files = await removableFiles(db, now(), maxSwept)
    const gone: string[] = []
    const failed: string[] = []
    let isAway = false
    for (const { key, isUploaded } of files) {
      if (isAway) break
      try {
        if (!isUploaded) await store.abandon(key)
        await store.remove(key)
        gone.push(key)
      } catch (error) {
        onError(new Error(`The file ${key} could not be removed`, { cause: error }))
        isAway = error instanceof ResultsUnavailable
        if (!isAway) failed.push(key)
      }
    }
    if (gone.length > 0) await forgetFiles(db, gone)
    if (failed.length > 0) await postponeRemoval(db, failed, now())
    removed += gone.length
    if (files.length < maxSwept || isAway) break
  }
  return removed
}
