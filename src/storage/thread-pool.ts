import { type ResourceLimits, Worker } from 'node:worker_threads'
import type { SetTimer } from './timer.ts'

/** A message from a thread: any number of progress reports, then the outcome of its task. */
export type TaskMessage<Outcome, Progress = never> = { progress: Progress } | { outcome: Outcome }

/** Threads that run the same program. Each runs one task at a time. */
export interface ThreadPool<Task, Outcome, Progress = never> {
  /**
   * Sends a task to an idle thread or to a new one, and resolves with its outcome. Aborting the signal terminates the
   * thread. If the thread exits before it sends an outcome, rejects once it has exited: with the signal's reason, or with
   * the thread's error.
   */
  run: (task: Task, signal: AbortSignal, onProgress?: (progress: Progress) => void) => Promise<Outcome>
  /** Terminates all threads. */
  close: () => Promise<void>
}

export interface ThreadPoolOptions {
  /** The module that each thread runs. It receives tasks as messages, and posts messages of the type `TaskMessage`. */
  program: URL
  workerData: unknown
  resourceLimits: ResourceLimits
  setTimer: SetTimer
}

/** After this time without a task, a thread ends and frees its memory. */
const idleMs = 30_000

interface Thread {
  worker: Worker
  cancelTermination: () => void
}

/** Creates a pool without threads. They start when they are needed, and idle threads do not keep the process alive. */
export function threadPool<Task, Outcome, Progress = never>(
  options: ThreadPoolOptions,
): ThreadPool<Task, Outcome, Progress> {
  const { program, workerData, resourceLimits, setTimer } = options
  const all = new Set<Worker>()
  const idle: Thread[] = []

  const forget = (thread: Thread) => {
    thread.cancelTermination()
    if (idle.includes(thread)) idle.splice(idle.indexOf(thread), 1)
  }
  const start = (): Thread => {
    const worker = new Worker(program, { workerData, resourceLimits })
    all.add(worker)
    const thread = { worker, cancelTermination: () => {} }
    // A thread that fails while idle is replaced when one is needed.
    worker.on('error', () => {})
    worker.on('exit', () => {
      all.delete(worker)
      forget(thread)
    })
    return thread
  }
  const release = (thread: Thread) => {
    if (!all.has(thread.worker)) return
    thread.worker.unref()
    thread.cancelTermination = setTimer(idleMs, () => {
      forget(thread)
      void thread.worker.terminate()
    })
    idle.push(thread)
  }
  return {
    run: async (task, signal, onProgress = () => {}) => {
      signal.throwIfAborted()
      const thread = idle.pop() ?? start()
      thread.cancelTermination()
      thread.worker.ref()
      const outcome = await outcomeOf<Task, Outcome, Progress>(thread.worker, task, signal, onProgress)
      // A signal that was aborted at the same time may have terminated the thread.
      if (signal.aborted) void thread.worker.terminate()
      else release(thread)
      return outcome
    },
    close: async () => {
      await Promise.all([...all].map((worker) => worker.terminate()))
    },
  }
}

function outcomeOf<Task, Outcome, Progress>(
  worker: Worker,
  task: Task,
  signal: AbortSignal,
  onProgress: (progress: Progress) => void,
): Promise<Outcome> {
  const { promise, resolve, reject } = Promise.withResolvers<Outcome>()
  let failure: unknown
  const onMessage = (message: TaskMessage<Outcome, Progress>) =>
    'progress' in message ? onProgress(message.progress) : resolve(message.outcome)
  const onError = (error: unknown) => {
    failure = error
  }
  const onExit = (code: number) =>
    reject(signal.aborted ? signal.reason : (failure ?? new Error(`The thread exited with code ${code}`)))
  const stop = () => {
    worker.off('message', onMessage)
    void worker.terminate()
  }
  worker.on('message', onMessage).on('error', onError).on('exit', onExit)
  signal.addEventListener('abort', stop)
  worker.postMessage(task)
  return promise.finally(() => {
    worker.off('message', onMessage).off('error', onError).off('exit', onExit)
    signal.removeEventListener('abort', stop)
  })
}
