import type { Database } from './database.ts'
import { sweepBelow } from './sweep.ts'

export interface RequestCounter {
  /** Counts a request in memory; stored later. */
  count: (clientId: string) => void
  /** Stores the counts so far and continues counting. */
  flush: () => Promise<void>
  /** Stores the remaining counts and stops. */
  close: () => Promise<void>
}

export interface RequestCounterOptions {
  db: Database
  now: () => number
  onError: (error: unknown) => void
}

const keptDays = 400
const dayMs = 86_400_000
const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, 10)

/**
 * Counts the requests of each client in memory and adds them to the row of the day (UTC) every few seconds. A killed
 * process loses the counts since the last flush, and around midnight some may go to the next day: they are statistics.
 */
export function requestCounter({ db, now, onError }: RequestCounterOptions): RequestCounter {
  const { add, flush, close } = batched<number>({
    write: (counts) => save(db, dayOf(now()), counts),
    merge: (one, other) => one + other,
    onError,
  })
  return { count: (clientId) => add(clientId, 1), flush, close }
}

const rowsAtOnce = 500

async function save(db: Database, day: string, counts: ReadonlyMap<string, number>): Promise<void> {
  const rows = [...counts].map(([clientId, requests]) => ({ day, clientId, requests }))
  await db.write(async (tx) => {
    for (let at = 0; at < rows.length; at += rowsAtOnce) {
      await tx
        .insertInto('requestCounts')
        .values(rows.slice(at, at + rowsAtOnce))
        .onConflict((conflict) =>
          conflict.columns(['day', 'clientId']).doUpdateSet((row) => ({
            requests: row('requestCounts.requests', '+', row.ref('excluded.requests')),
          })),
        )
        .execute()
    }
  })
}

/** Deletes the counts of days more than `keptDays` ago; returns how many rows. */
export async function expireRequestCounts(db: Database, now: () => number): Promise<number> {
  const before = dayOf(now() - keptDays * dayMs)
  return sweepBelow(db, { table: 'request_counts', key: ['day', 'client_id'], column: 'day' }, before)
}

/** Values by key, gathered in memory and written together. */
export interface Batched<Value> {
  /** Merges a value into that of its key, in memory. */
  add: (key: string, value: Value) => void
  /** Writes the gathered values and continues gathering. */
  flush: () => Promise<void>
  /** Writes the remaining values and stops. */
  close: () => Promise<void>
}

export interface BatchedOptions<Value> {
  write: (values: ReadonlyMap<string, Value>) => Promise<void>
  merge: (one: Value, other: Value) => Value
  onError: (error: unknown) => void
}

const flushEveryMs = 5_000

/**
 * Gathers values and writes them every few seconds; after a failed write they are retried with the next ones. A killed
 * process loses the values since the last write, so use it for statistics only.
 */
export function batched<Value>({ write, merge, onError }: BatchedOptions<Value>): Batched<Value> {
  let values = new Map<string, Value>()
  let flushing: Promise<void> = Promise.resolve()
  const add = (key: string, value: Value) => {
    const before = values.get(key)
    values.set(key, before === undefined ? value : merge(before, value))
  }
  async function flushNow(): Promise<void> {
    if (values.size === 0) return
    const taken = values
    values = new Map()
    await write(taken).catch((error) => {
      for (const [key, value] of taken) add(key, value)
      onError(error)
    })
  }
  const flush = () => {
    flushing = flushing.then(flushNow)
    return flushing
  }
  const timer = setInterval(flush, flushEveryMs)
  return {
    add,
    flush,
    close: () => {
      clearInterval(timer)
      return flush()
    },
  }
}
