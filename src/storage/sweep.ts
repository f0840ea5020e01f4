import { sql } from 'kysely'
import type { Database, Queryable } from './database.ts'

/** Maximum number of rows that a sweep deletes in one transaction. On SQLite, all other writes wait until it ends. */
export const maxSwept = 100

const [minPauseMs, maxPauseMs] = [5, 200]

interface Pacing {
  /** Monotonic clock in ms. */
  monotonic: () => number
  pause: (ms: number) => Promise<unknown>
  signal: AbortSignal
}

/**
 * Returns the same database, but pauses after each write for as long as the write took, at least 5 ms and at most 200
 * ms. This leaves SQLite's only writer free for other writes during a sweep. After `signal` is aborted, a write in
 * progress still returns its result, and later writes are rejected.
 */
export function pacedWrites(db: Database, { monotonic, pause, signal }: Pacing): Database {
  const write: Database['write'] = async (unit) => {
    signal.throwIfAborted()
    const startedAt = monotonic()
    const result = await db.write(unit)
    await pause(Math.min(Math.max(monotonic() - startedAt, minPauseMs), maxPauseMs)).catch((error) => {
      if (!signal.aborted) throw error
    })
    return result
  }
  return { ...db, write }
}

/**
 * Calls `remove` repeatedly, each time in a new transaction, until it removes fewer rows than the maximum. Other writes
 * can run between these transactions. Returns the total number of removed rows.
 */
export async function inSteps(
  { write }: Database,
  remove: (tx: Queryable) => Promise<number>,
  maxRows: number = maxSwept,
): Promise<number> {
  for (let count = 0; ; ) {
    const removed = await write(remove)
    count += removed
    if (removed < maxRows) return count
  }
}

/** Tables whose rows expire by a single indexed column and are not referenced by other tables. */
type SweptTable =
  | { table: 'request_counts'; key: ['day', 'client_id']; column: 'day' }
  | { table: 'version_calls'; key: ['version', 'client_id']; column: 'last_call_at' }
  | { table: 'quota_uses'; key: ['key', 'period']; column: 'period' }
  | { table: 'limit_windows'; key: ['key']; column: 'expire' }
  | { table: 'login_tries'; key: ['key']; column: 'ends_at' }
  | { table: 'invitations'; key: ['user_id']; column: 'expires_at' }
  | { table: 'webhook_statistics'; key: ['hour', 'webhook_id']; column: 'hour' }
  | { table: 'deleted_rows'; key: ['table_name', 'row_id']; column: 'expires_at' }
  | { table: 'declared_jobs'; key: ['id']; column: 'ended_at' }
  | { table: 'metric_samples'; key: ['at', 'node']; column: 'at' }
  | { table: 'traffic'; key: ['period', 'kind', 'at', 'node']; column: 'expires_at' }
  | { table: 'request_log'; key: ['id']; column: 'id' }

/** Deletes, in batches, the rows whose column is less than the value; returns the number of deleted rows. */
export function sweepBelow(db: Database, { table, key, column }: SweptTable, value: string | number): Promise<number> {
  const columns = sql.join(key.map((name) => sql.ref(name)))
  const isExpired = sql`${sql.ref(column)} < ${value}`
  const remove = sql`
    delete from ${sql.table(table)} where ${isExpired} and (${columns}) in (
      select ${columns} from ${sql.table(table)} where ${isExpired} limit ${sql.lit(maxSwept)})`
  return inSteps(db, async (tx) => Number((await remove.execute(tx)).numAffectedRows ?? 0))
}

/** The number of rows that a sweep removed, and how long that took. */
export interface Swept {
  what: string
  count: number
  ms: number
}

/** Removes expired rows; resolves with their number. */
type Sweep = () => Promise<number>

interface Sweeping {
  onError: (error: unknown, what: string) => void
  /** Called after each sweep that removed something. */
  onSwept: (swept: Swept) => void
  /** Monotonic clock in ms. */
  monotonic: () => number
  /** Returns the time to use for all sweeps of a round, in epoch ms. */
  time: () => Promise<number>
}

/**
 * Runs all sweeps at an interval, one after another. A failed sweep is reported and runs again in the next round.
 * Returns a function that stops the sweeps; after that, errors are not reported, because the database may be closed.
 */
export function sweepEvery(
  ms: number,
  { onError, onSwept, monotonic, time }: Sweeping,
  sweepsAt: (now: () => number) => Record<string, Sweep>,
): () => void {
  let running = false
  let isStopped = false
  let at = 0
  const report = (error: unknown, what: string) => {
    if (!isStopped) onError(error, what)
  }
  const sweeps = Object.entries(sweepsAt(() => at))
  const round = async () => {
    at = await time()
    for (const [what, sweep] of sweeps) {
      if (isStopped) return
      const startedAt = monotonic()
      const count = await sweep().catch((error) => {
        report(error, `sweep of ${what}`)
        return 0
      })
      if (count > 0) onSwept({ what, count, ms: Math.round(monotonic() - startedAt) })
    }
  }
  const timer = setInterval(async () => {
    if (running) return
    running = true
    await round().catch((error) => report(error, 'sweeps'))
    running = false
  }, ms)
  return () => {
    isStopped = true
    clearInterval(timer)
  }
}
