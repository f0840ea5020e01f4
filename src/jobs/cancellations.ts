import type { Database } from '../storage/database.ts'
import { currentOf, type JobRow } from './states.ts'

/** Tracks the attempts in this process. When a job is cancelled, the signal of its attempt is aborted. */
export interface Cancellations {
  watch: (row: JobRow) => { signal: AbortSignal; release: () => void }
  /**
   * Aborts the attempts of jobs that were cancelled on any node or started again elsewhere. Runs no query if no attempt
   * is in progress.
   */
  check: () => Promise<void>
}

/** Creates the tracker of the attempts in this process. */
export function cancellations(db: Database): Cancellations {
  const running = new Map<string, { row: JobRow; abort: AbortController }>()
  return {
    watch: (row) => {
      const key = `${row.id}/${row.attempts}`
      const abort = new AbortController()
      running.set(key, { row, abort })
      return { signal: abort.signal, release: () => running.delete(key) }
    },
    check: async () => {
      const watched = [...running.values()].filter(({ abort }) => !abort.signal.aborted)
      if (watched.length === 0) return
      const current = await currentOf(
        db,
        watched.map(({ row }) => row),
      )
      for (const { row, abort } of watched) {
        if (!current.has(row.id)) abort.abort(new Error('The job was cancelled'))
      }
    },
  }
}
