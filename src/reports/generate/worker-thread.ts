import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { Problem, type ProblemCode } from '../../http/problems/problem.ts'
import type { OnProgress, Order, Produced } from './render.ts'

/** Makes a report somewhere; stops at once, and rejects with the signal's reason, when the signal is aborted. */
export type Produce = (order: Order, signal: AbortSignal, onProgress: OnProgress) => Promise<Produced>

/** Where a thread finds the rows and puts the result. */
export interface Places {
  databaseUrl: string
  resultsUrl: string
}

/** What a thread is started with, and what it tells. */
export type ThreadData = Places & { order: Order }
export type FromThread =
  | { progress: number }
  | { produced: Produced }
  | { problem: { code: ProblemCode; detail: string } }
  | { error: unknown }

const program = new URL(`./thread-main${extname(import.meta.url)}`, import.meta.url)

/** Small, so that garbage goes early: a report keeps nothing but the page it is at. A thread above it dies alone. */
const resourceLimits = { maxOldGenerationSizeMb: 96, maxYoungGenerationSizeMb: 8 }

/**
 * Makes each report in a thread of its own, so that requests never wait for it; the thread and all it holds are gone
 * when it ends. What an aborted one has left in the store is for the caller to remove.
 */
export const inThread =
  (places: Places): Produce =>
  (order, signal, onProgress) => {
    signal.throwIfAborted()
    const worker = new Worker(program, { workerData: { ...places, order } satisfies ThreadData, resourceLimits })
    const { promise, resolve, reject } = Promise.withResolvers<Produced>()
    worker.on('message', (message: FromThread) => {
      if ('progress' in message) onProgress(message.progress)
      else if ('produced' in message) resolve(message.produced)
      else if ('problem' in message) reject(new Problem(message.problem.code, message.problem.detail))
      else reject(message.error)
    })
    worker.on('error', reject)
    worker.on('exit', (code) => reject(new Error(`The thread of the report ended with ${code}`)))
    const stop = () => reject(signal.reason)
    signal.addEventListener('abort', stop, { once: true })
    return promise.finally(async () => {
      signal.removeEventListener('abort', stop)
      await worker.terminate()
    })
  }
