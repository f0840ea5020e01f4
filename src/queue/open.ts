import type { Database } from '../storage/database.ts'
import { embeddedStore, type SharedWakes } from './embedded.ts'
import {
  type Backlog,
  type JobStore,
  type MeasuredQueue,
  type OnQueueError,
  type QueueName,
  queues,
  type StartJobSpan,
  type WorkCall,
} from './queue.ts'
import { waitingJobs } from './waiting-jobs.ts'
import { oneByOne, startLoop, together } from './worker-loop.ts'

export interface OpenQueueOptions {
  db: Database
  now: () => number
  random: () => number
  onError: (error: unknown, queue?: QueueName, job?: Parameters<OnQueueError>[2]) => void
  /** False if this process or thread only adds jobs; it then needs fewer connections to PostgreSQL. By default true. */
  isWorker?: boolean
  /** Wakes the other threads of this process that use the same SQLite file, if there are any. */
  wakes?: SharedWakes | null
  /** Called after each run of jobs. */
  onRun?: (run: WorkCall) => void
  /** Overrides the default concurrency of queues in this process. */
  concurrency?: Partial<Record<QueueName, number>>
  /** Starts a span for each run of jobs, if traces are exported. */
  startSpan?: StartJobSpan | undefined
}

/** Opens the queue for the database's engine. */
export async function openQueue({ db, wakes, isWorker = true, ...options }: OpenQueueOptions): Promise<MeasuredQueue> {
  const { now, onError } = options
  if (db.engine.name === 'sqlite') return makeQueue({ ...options, db, store: embeddedStore(db, now, wakes) })
  // Loaded on demand, so that an embedded service does not load the pg-boss client.
  const { bossStore } = await import('./pg-boss.ts')
  const store = await bossStore(db.url, { isWorker, onError })
  return makeQueue({ ...options, db, store })
}

type QueueOptions = OpenQueueOptions & { store: JobStore }

const names = Object.keys(queues) as QueueName[]

/** Builds the queue on top of an engine's store. */
function makeQueue(options: QueueOptions): MeasuredQueue {
  const { db, store, now, random, onError, onRun = () => {}, startSpan } = options
  const loops = new Map<QueueName, ReturnType<typeof startLoop>>()
  store.onWake((queue) => loops.get(queue)?.wake())
  let stopped: Promise<void> | undefined
  const stop: MeasuredQueue['stop'] = async (graceMs, lastAdded) => {
    await Promise.all([...loops.values()].map((loop) => loop.stop(graceMs)))
    await lastAdded
    await store.close()
  }
  return {
    enqueue: (tx, queue, payload, { delayMs = 0, trace, position } = {}) =>
      store.add(tx, queue, trace ? { ...payload, trace } : payload, now() + delayMs, position),
    work: (queue, work) => {
      const concurrency = options.concurrency?.[queue] ?? queues[queue].concurrency
      const run = 'together' in work ? together(work.together) : oneByOne(work)
      loops.set(queue, startLoop({ store, queue, run, concurrency, now, random, onError, onRun, startSpan }))
    },
    backlog: async () => {
      const backlogs: Backlog[] = []
      for (const queue of names) backlogs.push({ queue, ...(await waitingJobs(db.reserved, queue, now())) })
      return backlogs
    },
    running: () => names.map((queue) => ({ queue, jobs: loops.get(queue)?.running() ?? 0 })),
    stop: (graceMs, lastAdded) => {
      stopped ??= stop(graceMs, lastAdded)
      return stopped
    },
  }
}
