import type { Database } from './database.ts'
import { iso } from './ids.ts'
import { sweepBelow } from './sweep.ts'

export interface RequestCounter {
  /** Counts a request in memory, to be stored by the next flush. */
  count: (clientId: string) => void
  /** Stores the current counts and continues counting. */
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
 * Counts each client's requests in memory and adds them to the current day's row (UTC) every few seconds; also stores
 * when each client was last used, to the minute. The counts are only statistics: if the process is killed, the counts
 * since the last flush are lost, and some requests before midnight may count for the next day.
 */
export function requestCounter({ db, now, onError }: RequestCounterOptions): RequestCounter {
  const { add, flush, close } = batched<number>({
    write: (counts) => save(db, now(), counts),
    merge: (left, right) => left + right,
    onError,
  })
  return { count: (clientId) => add(clientId, 1), flush, close }
}

const rowsPerStatement = 500
const useGrainMs = 60_000

async function save(db: Database, nowMs: number, counts: ReadonlyMap<string, number>): Promise<void> {
  const day = dayOf(nowMs)
  // Sorting prevents deadlocks between nodes that write to the same rows concurrently.
  const rows = [...counts]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([clientId, requests]) => ({ day, clientId, requests }))
  await db.write(async (tx) => {
    for (let at = 0; at < rows.length; at += rowsPerStatement) {
      const some = rows.slice(at, at + rowsPerStatement)
      await tx
        .insertInto('requestCounts')
        .values(some)
        .onConflict((conflict) =>
          conflict.columns(['day', 'clientId']).doUpdateSet((row) => ({
            requests: row('requestCounts.requests', '+', row.ref('excluded.requests')),
          })),
        )
        .execute()
      await tx
        .updateTable('clients')
        .set({ lastUsedAt: iso(nowMs) })
        .where(
          'id',
          'in',
          some.map(({ clientId }) => clientId),
        )
        .where(({ eb, or }) => or([eb('lastUsedAt', 'is', null), eb('lastUsedAt', '<=', iso(nowMs - useGrainMs))]))
        .execute()
    }
  })
}

/** Deletes counts older than `retentionDays`; returns the number of deleted rows. */
export async function expireRequestCounts(db: Database, now: () => number): Promise<number> {
  const before = dayOf(now() - retentionDays * dayMs)
  return sweepBelow(db, { table: 'request_counts', key: ['day', 'client_id'], column: 'day' }, before)
}

/** A collection of values by key, kept in memory until they are written together. */
export interface Batched<Value> {
  /** Merges a value with the values already collected for the same key. */
  add: (key: string, value: Value) => void
  /** Writes the collected values and continues collecting. */
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
 * Collects values and writes them every few seconds; values from a failed write are included in the next write. If the
 * process is killed, the values collected since the last write are lost, so use this only for statistics.
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
