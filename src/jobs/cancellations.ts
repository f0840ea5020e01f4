import type { Database } from '../storage/database.ts'
import { currentOf, type JobRow } from './states.ts'

/** The attempts in this process. When a job is cancelled, the signal of its attempt is aborted. */
export interface Cancellations {
  watch: (row: JobRow) => { signal: AbortSignal; release: () => void }
  /**
   * Aborts the attempts whose jobs were cancelled, on any node, or started again elsewhere. Makes no query if nothing
   * is running.
   */
  check: () => Promise<void>
}

/** Creates the list of attempts in this process. */
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
