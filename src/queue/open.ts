import type { Database } from '../storage/database.ts'
import { embeddedStore } from './embedded.ts'
import { makeQueue } from './make-queue.ts'
import type { Queue, QueueName } from './queue.ts'

export interface OpenQueueOptions {
  db: Database
  now: () => number
  random: () => number
  onError: (error: unknown, queue?: QueueName) => void
}

/** The queue for the database's engine. */
export async function openQueue({ db, now, random, onError }: OpenQueueOptions): Promise<Queue> {
  if (db.engine.name === 'sqlite') return makeQueue({ store: embeddedStore(db, now), now, random, onError })
  // Loaded on demand: an embedded service does not load the pg-boss client.
  const { bossStore } = await import('./pg-boss.ts')
  const store = await bossStore(db.url, onError)
  return makeQueue({ store, now, random, onError })
}
