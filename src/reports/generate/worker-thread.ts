import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { ResultsUnavailable } from '../../files/store.ts'
import { Problem, type ProblemCode } from '../../http/problems/problem.ts'
import type { OnProgress, RenderJob, RenderResult } from './render.ts'

/** Generates a report. When the signal is aborted, stops immediately and rejects with the signal's reason. */
export type Produce = (order: RenderJob, signal: AbortSignal, onProgress: OnProgress) => Promise<RenderResult>

/** The URLs of the database and of the result store. */
export interface ThreadUrls {
  databaseUrl: string
  resultsUrl: string
}

export type RenderThreadData = ThreadUrls & { order: RenderJob }
export type RenderMessage =
  | { progress: number }
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

/**
 * Generates each report in its own thread, so that requests never wait for a report; when the thread ends, all its
 * memory is freed. After an abort, the caller must remove what the thread left in the store.
 */
export const renderInThread =
  (urls: ThreadUrls): Produce =>
  (order, signal, onProgress) => {
    signal.throwIfAborted()
    const worker = new Worker(program, { workerData: { ...urls, order } satisfies RenderThreadData, resourceLimits })
    const { promise, resolve, reject } = Promise.withResolvers<RenderResult>()
    worker.on('message', (message: RenderMessage) => {
      if ('progress' in message) onProgress(message.progress)
      else if ('produced' in message) resolve(message.produced)
      else if ('problem' in message) reject(new Problem(message.problem.code, message.problem.detail))
      else if ('unavailable' in message) reject(new ResultsUnavailable(message.unavailable))
      else reject(message.error)
    })
    worker.on('error', reject)
    worker.on('exit', (code) => reject(new Error(`The report thread exited with code ${code}`)))
    const stop = () => reject(signal.reason)
    signal.addEventListener('abort', stop, { once: true })
    return promise.finally(async () => {
      signal.removeEventListener('abort', stop)
      await worker.terminate()
    })
  }
