import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { SetTimer } from './scan.ts'

/** Messages to and from a scan thread. */
export interface ScanRequest {
  sql: string
  values: readonly unknown[]
}
export type ScanResult = { rows: unknown[] } | { error: { message: string; errcode: number | undefined } }

/** Threads that read one SQLite file; each thread runs one statement at a time. */
export interface ScanThreads {
  /**
   * Runs a statement on an idle thread or on a new one. Aborting the signal terminates the thread; the promise rejects
   * once the thread has exited.
   */
  run: (request: ScanRequest, signal: AbortSignal) => Promise<unknown[]>
  /** Terminates all threads. */
  close: () => Promise<void>
}

interface Thread {
  worker: Worker
  cancelTermination: () => void
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
    const thread = { worker, cancelTermination: () => {} }
    // A thread that fails while idle is replaced when one is needed.
    worker.on('error', () => {})
    worker.on('exit', () => {
      all.delete(worker)
      thread.cancelTermination()
      if (idle.includes(thread)) idle.splice(idle.indexOf(thread), 1)
    })
    return thread
  }
  const release = (thread: Thread) => {
    if (!all.has(thread.worker)) return
    // An idle thread does not keep the process alive.
    thread.worker.unref()
    thread.cancelTermination = setTimer(idleMs, () => void thread.worker.terminate())
    idle.push(thread)
  }
  return {
    run: async (request, signal) => {
      signal.throwIfAborted()
      const thread = idle.pop() ?? start()
      thread.cancelTermination()
      thread.worker.ref()
      const rows = await send(thread.worker, request, signal)
      release(thread)
      if ('error' in rows) throw Object.assign(new Error(rows.error.message), { errcode: rows.error.errcode })
      return rows.rows
    },
    close: async () => {
      await Promise.all([...all].map((worker) => worker.terminate()))
    },
  }
}

/** Sends a statement and resolves with its result; rejects if the thread exits without sending one. */
function send(worker: Worker, request: ScanRequest, signal: AbortSignal): Promise<ScanResult> {
  const { promise, resolve, reject } = Promise.withResolvers<ScanResult>()
  let failure: unknown
  const fail = (error: unknown) => {
    failure = error
  }
  const ended = (code: number) => reject(failure ?? new Error(`A scan thread exited with code ${code}`))
  const stop = () => void worker.terminate()
  worker.on('message', resolve).on('error', fail).on('exit', ended)
  signal.addEventListener('abort', stop)
  worker.postMessage(request)
  return promise.finally(() => {
    worker.off('message', resolve).off('error', fail).off('exit', ended)
    signal.removeEventListener('abort', stop)
  })
}
