import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { Place } from '../place.ts'
import type { Produced, ScheduleOptions } from './schedule.ts'

/** The options that all backups of a schedule share. */
export interface BackupOrder {
  place: Place
  version: string
  passphrase: string | null
  /** The URL of the folder or bucket. */
  backupsUrl: string
}

/** A thread's input. */
export type ThreadData = BackupOrder & { name: string }
/** The only message that a thread sends. */
export type FromThread = { produced: Produced } | { error: unknown }

const program = new URL(`./thread-main${extname(import.meta.url)}`, import.meta.url)
const resourceLimits = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 8 }
/** The time in which an aborted thread must remove what it has written. */
const abortLimitMs = 5_000

/** Makes each backup in a separate thread, so that requests never wait for it. */
export const inThread =
  (order: BackupOrder): ScheduleOptions['produce'] =>
  (name, signal) => {
    signal.throwIfAborted()
    const worker = new Worker(program, { workerData: { ...order, name } satisfies ThreadData, resourceLimits })
    const { promise, resolve, reject } = Promise.withResolvers<Produced>()
    worker.on('message', (message: FromThread) => {
      if ('produced' in message) resolve(message.produced)
      else reject(message.error)
    })
    worker.on('error', reject)
    worker.on('exit', (code) => reject(new Error(`The backup thread exited with code ${code}`)))
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
