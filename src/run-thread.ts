import { Worker } from 'node:worker_threads'

/** The messages that a thread sends: any number of progress reports, then one outcome. */
export type FromThread<Result, Progress = never> = { progress: Progress } | { result: Result } | { error: unknown }

export interface ThreadOptions<Progress> {
  /**
   * The module that the thread runs. It posts messages of the type `FromThread`, and stops when it receives a message.
   */
  program: URL
  data: unknown
  signal: AbortSignal
  onProgress?: (progress: Progress) => void
}

const resourceLimits = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 8 }
/** How long an aborted thread may take to clean up what it has written. */
const abortLimitMs = 5_000

/** Runs a task in a separate thread, so that requests never wait for it. Resolves with the task's result. */
export async function runThread<Result, Progress = never>(options: ThreadOptions<Progress>): Promise<Result> {
  const { program, data, signal, onProgress = () => {} } = options
  signal.throwIfAborted()
  const worker = new Worker(program, { workerData: data, resourceLimits })
  const { promise, resolve, reject } = Promise.withResolvers<Result>()
  worker.on('message', (message: FromThread<Result, Progress>) => {
    if ('progress' in message) onProgress(message.progress)
    else if ('result' in message) resolve(message.result)
    else reject(message.error)
  })
  worker.on('error', reject)
  worker.on('exit', (code) => reject(new Error(`The thread exited with code ${code}`)))
  let limit: NodeJS.Timeout | undefined
  const stop = () => {
    worker.postMessage('stop')
    limit = setTimeout(() => reject(signal.reason), abortLimitMs)
  }
  signal.addEventListener('abort', stop, { once: true })
  return promise.finally(async () => {
    clearTimeout(limit)
    signal.removeEventListener('abort', stop)
    await worker.terminate()
  })
}
