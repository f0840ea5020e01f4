import type { Database } from '../storage/database.ts'
import { embeddedStore } from './embedded.ts'
import { type JobStore, type Queue, type QueueName, queues } from './queue.ts'
import { oneByOne, startLoop, together } from './worker-loop.ts'

export interface OpenQueueOptions {
  db: Database
  now: () => number
  random: () => number
  onError: (error: unknown, queue?: QueueName) => void
}

/** Opens the queue for the database's engine. */
export async function openQueue({ db, now, random, onError }: OpenQueueOptions): Promise<Queue> {
  if (db.engine.name === 'sqlite') return makeQueue({ store: embeddedStore(db, now), now, random, onError })
  // Loaded on demand, so that an embedded service does not load the pg-boss client.
  const { bossStore } = await import('./pg-boss.ts')
  const store = await bossStore(db.url, onError)
  return makeQueue({ store, now, random, onError })
}

interface QueueOptions {
  store: JobStore
  now: () => number
  random: () => number
  onError: (error: unknown, queue: QueueName) => void
}

/** Builds the queue on top of an engine's store. */
function makeQueue({ store, now, random, onError }: QueueOptions): Queue {
  const loops = new Map<QueueName, ReturnType<typeof startLoop>>()
  store.onWake((queue) => loops.get(queue)?.wake())
  return {
    enqueue: (tx, queue, payload, { delayMs = 0, position } = {}) =>
      store.add(tx, queue, payload, now() + delayMs, position),
    work: (queue, work) => {
      const { concurrency } = queues[queue]
      const run = 'together' in work ? together(work.together) : oneByOne(work)
      loops.set(queue, startLoop({ store, queue, run, concurrency, now, random, onError }))
    },
    stop: async (graceMs, lastAdded) => {
      await Promise.all([...loops.values()].map((loop) => loop.stop(graceMs)))
      await lastAdded
      await store.close()
    },
  }
}
