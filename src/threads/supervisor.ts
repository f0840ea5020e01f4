import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { Log } from '../logging/entries.ts'
import { type Hub, openHub } from './hub.ts'
import { beatsOf, codeNameOf, releaseLocks, type ThreadMemory } from './memory.ts'
import { beatMs, type ThreadData, type ThreadMessage, type ThreadRole, type ToThread } from './messages.ts'

export interface SupervisorOptions {
  /** The worker data that is the same for all threads. */
  data: Omit<ThreadData, 'number' | 'role'>
  roles: readonly ThreadRole[]
  memory: ThreadMemory
  log: Log
  later: (ms: number, run: () => void) => () => void
}

interface Thread {
  number: number
  role: ThreadRole
  worker: Worker
  isReady: boolean
  isEnded: boolean
  ended: Promise<void>
}

const program = new URL(`./thread-main${extname(import.meta.url)}`, import.meta.url)
/** After this many checks without a heartbeat, a thread counts as hung. */
const maxMissed = 5
const restartMs = 250
/** How long a thread may take to exit by itself after it has reported `closed`. */
const endMs = 1_000

/**
 * Starts the threads. Once all of them are ready, resolves with the function that closes them. Replaces a thread that
 * ends or hangs. If a thread fails to start, stops all threads and rejects with its error.
 */
export async function startThreads(options: SupervisorOptions): Promise<() => Promise<void>> {
  const { roles, memory, log, later } = options
  const threads = new Map<number, Thread>()
  const hub = openHub({ later, others: (number) => workersOf([...threads.values()], number) })
  let isClosing = false
  const begin = (number: number, role: ThreadRole) => {
    const started = launch({ ...options, number, role, hub })
    threads.set(number, started.thread)
    void started.thread.ended.then(() => {
      releaseLocks(memory, number)
      if (isClosing || !started.thread.isReady) return
      hub.onEnded(number)
      later(restartMs, () => isClosing || restart(number, role))
    })
    return started.ready
  }
  const restart = (number: number, role: ThreadRole) => {
    begin(number, role).then(
      () => log.warn({ thread: number, role }, 'thread replaced'),
      (err) => {
        log.error({ thread: number, role, err }, 'thread failed')
        later(restartMs * 4, () => isClosing || restart(number, role))
      },
    )
  }
  const close = async () => {
    isClosing = true
    const closed = await Promise.allSettled([...threads.values()].map((thread) => closeThread(thread, later)))
    stopWatching()
    for (const one of closed) if (one.status === 'rejected') throw one.reason
  }
  const stopWatching = watchBeats(threads, options)
  try {
    await Promise.all(roles.map((role, at) => begin(at + 1, role)))
    return close
  } catch (error) {
    await close()
    throw error
  }
}

const workersOf = (threads: readonly Thread[], except: number) =>
  new Map(
    threads
      .filter(({ number, isReady, isEnded }) => isReady && !isEnded && number !== except)
      .map(({ number, worker }) => [number, worker]),
  )

interface StartingThread extends SupervisorOptions {
  number: number
  role: ThreadRole
  hub: Hub
}

/** Starts one thread. If the thread fails to start, `ready` rejects with its error. */
function launch({ data, number, role, memory, log, hub }: StartingThread) {
  const worker = new Worker(program, { workerData: { ...data, number, role, memory } })
  const { promise: ready, resolve, reject } = Promise.withResolvers<void>()
  const ended = Promise.withResolvers<void>()
  const thread: Thread = { number, role, worker, isReady: false, isEnded: false, ended: ended.promise }
  worker.on('message', (message: ThreadMessage) => {
    if (message.event === 'ready') {
      thread.isReady = true
      resolve()
    } else if (message.event === 'failed') {
      reject(
        Object.assign(new Error(message.message), message.exitCode !== undefined && { exitCode: message.exitCode }),
      )
      void worker.terminate()
    } else if (message.event !== 'closed') hub.receive(number, worker, message)
  })
  worker.on('error', (err) => {
    if (thread.isReady) log.error({ thread: number, role, err }, 'thread failed')
    reject(err)
  })
  worker.on('exit', () => {
    reject(new Error(`Thread ${number} ended before it was ready`))
    thread.isEnded = true
    ended.resolve()
  })
  return { thread, ready }
}

/**
 * Asks a thread to close, and terminates it if it does not end soon after it has closed. Rejects with the error that the
 * thread throws while it closes.
 */
async function closeThread({ worker, ended }: Thread, later: SupervisorOptions['later']): Promise<void> {
  let cancel = () => {}
  let failure: { error: unknown } | undefined
  worker.on('error', (error) => {
    failure = { error }
  })
  worker.on('message', ({ event }: ThreadMessage) => {
    if (event === 'closed') cancel = later(endMs, () => void worker.terminate())
  })
  worker.postMessage({ event: 'close' } satisfies ToThread)
  await ended
  cancel()
  if (failure) throw failure.error
}

/** Terminates threads whose event loop has stopped running. Returns a function that stops these checks. */
function watchBeats(threads: ReadonlyMap<number, Thread>, { memory, log }: SupervisorOptions): () => void {
  const seen = new WeakMap<Worker, { beats: number; missed: number }>()
  const timer = setInterval(() => {
    for (const { number, role, worker, isReady, isEnded } of threads.values()) {
      const beats = beatsOf(memory, number).count()
      const before = seen.get(worker)
      const missed = isReady && !isEnded && before?.beats === beats ? before.missed + 1 : 0
      seen.set(worker, { beats, missed })
      if (missed < maxMissed) continue
      seen.delete(worker)
      const code = codeNameOf(memory, number).read()
      const seconds = (maxMissed * beatMs) / 1_000
      log.error({ thread: number, role, seconds, ...(code !== '' && { code }) }, 'thread hangs')
      void worker.terminate()
    }
  }, beatMs)
  return () => clearInterval(timer)
}
