import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { SetTimer } from './scan.ts'

/** The messages to and from a thread. */
export interface ScanQuestion {
  sql: string
  values: readonly unknown[]
}
export type ScanAnswer = { rows: unknown[] } | { error: { message: string; errcode: number | undefined } }

/** Threads that read a SQLite file, each one statement at a time. */
export interface ScanThreads {
  /** Starts a thread when none is idle. Aborting the signal terminates the thread; the promise rejects once it is gone. */
  run: (question: ScanQuestion, signal: AbortSignal) => Promise<unknown[]>
  /** Terminates all threads. */
  close: () => Promise<void>
}

interface Thread {
  worker: Worker
  cancelEnd: () => void
}

const program = new URL(`./scan-thread${extname(import.meta.url)}`, import.meta.url)
const resourceLimits = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 4 }
const idleMs = 30_000

export function scanThreads(path: string, setTimer: SetTimer): ScanThreads {
  const all = new Set<Worker>()
  const idle: Thread[] = []

  const start = (): Thread => {
    const worker = new Worker(program, { workerData: { path }, resourceLimits })
    all.add(worker)
    const thread = { worker, cancelEnd: () => {} }
    // A thread that fails while idle is replaced on the next use.
    worker.on('error', () => {})
    worker.on('exit', () => {
      all.delete(worker)
      thread.cancelEnd()
      if (idle.includes(thread)) idle.splice(idle.indexOf(thread), 1)
    })
    return thread
  }
  const rest = (thread: Thread) => {
    if (!all.has(thread.worker)) return
    // An idle thread does not keep the process alive.
    thread.worker.unref()
    thread.cancelEnd = setTimer(idleMs, () => void thread.worker.terminate())
    idle.push(thread)
  }
  return {
    run: async (question, signal) => {
      signal.throwIfAborted()
      const thread = idle.pop() ?? start()
      thread.cancelEnd()
      thread.worker.ref()
      const rows = await answerOf(thread.worker, question, signal)
      rest(thread)
      if ('error' in rows) throw Object.assign(new Error(rows.error.message), { errcode: rows.error.errcode })
      return rows.rows
    },
    close: async () => {
      await Promise.all([...all].map((worker) => worker.terminate()))
    },
  }
}

/** Sends a query and resolves with its result; rejects when the thread ends without one. */
function answerOf(worker: Worker, question: ScanQuestion, signal: AbortSignal): Promise<ScanAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<ScanAnswer>()
  const failed = { reason: undefined as unknown }
  const fail = (error: unknown) => {
    failed.reason = error
  }
  const ended = (code: number) => reject(failed.reason ?? new Error(`The thread of a scan ended with ${code}`))
  const stop = () => void worker.terminate()
  worker.on('message', resolve).on('error', fail).on('exit', ended)
  signal.addEventListener('abort', stop)
  worker.postMessage(question)
  return promise.finally(() => {
    worker.off('message', resolve).off('error', fail).off('exit', ended)
    signal.removeEventListener('abort', stop)
  })
}
