import type { Database } from '../db/open.ts'
import { bossStore } from './boss.ts'
import { embeddedStore } from './embedded.ts'
import { makeQueue, type Queue, type QueueName } from './queue.ts'

export interface OpenQueueOptions {
  db: Database
  now: () => number
  random: () => number
  onError: (error: unknown, queue?: QueueName) => void
}

/** The queue that fits the database's engine. */
export async function openQueue({ db, now, random, onError }: OpenQueueOptions): Promise<Queue> {
  const store = db.engine.name === 'postgres' ? await bossStore(db.url, onError) : embeddedStore(db, now)
  return makeQueue({ store, now, random, onError })
}
