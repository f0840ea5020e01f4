import { extname } from 'node:path'
import { ResultsUnavailable } from '../../files/store.ts'
import { Problem, type ProblemCode } from '../../http/problems/problem.ts'
import { type ThreadPool, threadPool } from '../../storage/thread-pool.ts'
import { realTimer } from '../../storage/timer.ts'
import type { OnProgress, RenderJob, RenderResult } from './render.ts'

/** Generates a report. When the signal is aborted, stops immediately and rejects with the signal's reason. */
export type Produce = (order: RenderJob, signal: AbortSignal, onProgress: OnProgress) => Promise<RenderResult>

/** The URLs of the database and of the result store. */
export interface ThreadUrls {
  databaseUrl: string
  resultsUrl: string
}

/** How a report ended in its thread. */
export type RenderOutcome =
  | { produced: RenderResult }
  | { problem: { code: ProblemCode; detail: string } }
  | { unavailable: string }
  | { error: unknown }

/** The outcome of an attempt to generate a report; `rows` and `bytes` are 0 if it failed. */
export interface ReportEnd {
  format: string
  seconds: number
  outcome: 'completed' | 'failed'
  rows: number
  bytes: number
}

/** Calls `onEnd` after each attempt. */
export const reporting =
  (produce: Produce, onEnd: (end: ReportEnd) => void): Produce =>
  async (order, signal, onProgress) => {
    const beganMs = performance.now()
    const { format } = order
    const seconds = () => (performance.now() - beganMs) / 1_000
    try {
      const result = await produce(order, signal, onProgress)
      onEnd({ format, seconds: seconds(), outcome: 'completed', rows: result.rowCount, bytes: result.sizeBytes })
      return result
    } catch (error) {
      onEnd({ format, seconds: seconds(), outcome: 'failed', rows: 0, bytes: 0 })
      throw error
    }
  }

const program = new URL(`./thread-main${extname(import.meta.url)}`, import.meta.url)

/**
 * Small, so that garbage is collected early: a report needs only its current page. A thread that exceeds the limit is
 * terminated without affecting the process.
 */
const resourceLimits = { maxOldGenerationSizeMb: 96, maxYoungGenerationSizeMb: 8 }

/** Threads that generate reports, so that requests never wait for a report; one report at a time in each. */
export interface ReportThreads {
  /** After an abort, the caller must remove what the thread left in the store. */
  produce: Produce
  /** Terminates all threads. */
  close: () => Promise<void>
}

export function reportThreads(urls: ThreadUrls): ReportThreads {
  const options = { program, workerData: urls, resourceLimits, setTimer: realTimer }
  const pool: ThreadPool<RenderJob, RenderOutcome, number> = threadPool(options)
  return {
    produce: async (order, signal, onProgress) => {
      const outcome = await pool.run(order, signal, onProgress)
      if ('produced' in outcome) return outcome.produced
      if ('problem' in outcome) throw new Problem(outcome.problem.code, outcome.problem.detail)
      throw 'unavailable' in outcome ? new ResultsUnavailable(outcome.unavailable) : outcome.error
    },
    close: pool.close,
  }
}
