import { extname } from 'node:path'
import { type ThreadPool, threadPool } from '../thread-pool.ts'
import type { SetTimer } from '../timer.ts'

/** A statement for a scan thread. */
export interface ScanTask {
  sql: string
  values: readonly unknown[]
}
export type ScanOutcome = { rows: unknown[] } | { error: { message: string; errcode: number | undefined } }

/** Threads that read one SQLite file; each thread runs one statement at a time. */
export interface ScanThreads {
  /**
   * Runs a statement. Aborting the signal terminates its thread; the promise rejects once the thread has exited.
   */
  run: (task: ScanTask, signal: AbortSignal) => Promise<unknown[]>
  /** Terminates all threads. */
  close: () => Promise<void>
}

const program = new URL(`./scan-thread${extname(import.meta.url)}`, import.meta.url)
const resourceLimits = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 4 }

export function scanThreads(path: string, setTimer: SetTimer): ScanThreads {
  const pool: ThreadPool<ScanTask, ScanOutcome> = threadPool({
    program,
    workerData: { path },
    resourceLimits,
    setTimer,
  })
  return {
    run: async (task, signal) => {
      const outcome = await pool.run(task, signal)
      if ('error' in outcome) throw Object.assign(new Error(outcome.error.message), { errcode: outcome.error.errcode })
      return outcome.rows
    },
    close: pool.close,
  }
}
