import type { Database } from './database.ts'
import { sweepBelow } from './sweep.ts'

export interface RequestCounter {
  /** Counts a request in memory, to be stored by the next flush. */
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

const retentionDays = 400
const dayMs = 86_400_000
const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, 10)

/**
 * Counts the requests of each client in memory and adds them to the row of the day (UTC) every few seconds. A killed
 * process loses the counts since the last flush, and around midnight some may be counted for the next day: they are
 * statistics.
 */
export function requestCounter({ db, now, onError }: RequestCounterOptions): RequestCounter {
  const { add, flush, close } = batched<number>({
    write: (counts) => save(db, dayOf(now()), counts),
    merge: (left, right) => left + right,
    onError,
  })
  return { count: (clientId) => add(clientId, 1), flush, close }
}

const rowsPerInsert = 500

async function save(db: Database, day: string, counts: ReadonlyMap<string, number>): Promise<void> {
  const rows = [...counts].map(([clientId, requests]) => ({ day, clientId, requests }))
  await db.write(async (tx) => {
    for (let at = 0; at < rows.length; at += rowsPerInsert) {
      await tx
        .insertInto('requestCounts')
        .values(rows.slice(at, at + rowsPerInsert))
        .onConflict((conflict) =>
          conflict.columns(['day', 'clientId']).doUpdateSet((row) => ({
            requests: row('requestCounts.requests', '+', row.ref('excluded.requests')),
          })),
        )
        .execute()
    }
  })
}

/** Deletes the counts of days more than `retentionDays` ago; returns the number of rows. */
export async function expireRequestCounts(db: Database, now: () => number): Promise<number> {
  const before = dayOf(now() - retentionDays * dayMs)
  return sweepBelow(db, { table: 'request_counts', key: ['day', 'client_id'], column: 'day' }, before)
}

/** Values by key, gathered in memory and written together. */
export interface Batched<Value> {
  /** Merges a value into the one gathered for its key. */
  add: (key: string, value: Value) => void
  /** Writes the gathered values and continues gathering. */
  flush: () => Promise<void>
  /** Writes the remaining values and stops. */
  close: () => Promise<void>
}

export interface BatchedOptions<Value> {
  write: (values: ReadonlyMap<string, Value>) => Promise<void>
  merge: (left: Value, right: Value) => Value
  onError: (error: unknown) => void
}

const flushEveryMs = 5_000

/**
 * Gathers values and writes them every few seconds; values of a failed write are retried with the next one. A killed
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
    const batch = values
    values = new Map()
    await write(batch).catch((error) => {
      for (const [key, value] of batch) add(key, value)
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
