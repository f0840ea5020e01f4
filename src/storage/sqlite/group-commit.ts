import type { StatementSync } from 'node:sqlite'
import type { OnCommit, Write } from '../database.ts'
import type { SqliteHandle } from './driver.ts'
import type { WriteLock } from './write-lock.ts'

interface Waiting<Tx> {
  unit: (tx: Tx) => Promise<unknown>
  resolve: (value: never) => void
  reject: (reason: unknown) => void
}

export interface GroupCommitOptions {
  /** Measures durations in ms. */
  monotonic?: () => number
  /** Held during each transaction; null if no other thread writes. */
  lock?: WriteLock | null
  /** Called at the beginning of each transaction. */
  onBegin?: () => void
  /** Called after the commit, before the units resolve. */
  onCommit?: OnCommit
  onRollback?: () => void
}

const unitsPerCommit = 512
/** How long the first unit waits at most for others. */
const maxGatherMs = 2
const busyRetryMs = 5
const busyLimitMs = 5_000
const sqliteBusy = 5

/**
 * Group commit: units that arrive together share one `BEGIN IMMEDIATE … COMMIT` and one sync, and resolve after the commit.
 * A transaction begins with the first event loop iteration in which no further unit arrives; under a steady load, once the
 * first unit has waited for 2 ms. Each unit runs in its own SAVEPOINT, so a failed unit undoes only its own writes.
 *
 * A unit must await nothing but the database, because all later units wait for it.
 */
export function groupCommit<Tx>(handle: SqliteHandle, tx: Tx, options: GroupCommitOptions = {}): Write<Tx> {
  const { monotonic = () => performance.now(), lock = null } = options
  const { onBegin = () => {}, onCommit = () => {}, onRollback = () => {} } = options
  const { db } = handle
  const waiting: Waiting<Tx>[] = []
  let isRunning = false

  async function runBatch(): Promise<void> {
    // Units that arrive while this thread waits for the lock belong to the same transaction.
    await lock?.lock()
    const batch = waiting.splice(0, unitsPerCommit)
    const beganMs = monotonic()
    try {
      await begin(handle)
      onBegin()
      const settlers = await runUnits(handle, tx, batch)
      handle.statement('commit').run.run()
      onCommit(batch.length, (monotonic() - beganMs) / 1_000)
      for (const settle of settlers) settle()
    } catch (error) {
      if (db.isOpen && db.isTransaction) db.exec('rollback')
      onRollback()
      for (const { reject } of batch) reject(error)
    } finally {
      lock?.unlock()
    }
    isRunning = waiting.length > 0
    if (isRunning) gather(0, monotonic())
  }

  /** Runs a batch after the first iteration in which no unit arrives; `known` units had arrived before this iteration. */
  function gather(known: number, sinceMs: number): void {
    const count = waiting.length
    const isFull = count >= unitsPerCommit || monotonic() - sinceMs >= maxGatherMs
    if (count === known || isFull) void runBatch()
    else setImmediate(gather, count, sinceMs)
  }

  return (unit) =>
    new Promise((resolve, reject) => {
      waiting.push({ unit, resolve, reject })
      if (isRunning) return
      isRunning = true
      setImmediate(gather, 0, monotonic())
    })
}

/** Begins a transaction. Waits without blocking the event loop if another process holds the write lock. */
async function begin(handle: SqliteHandle): Promise<void> {
  for (let waited = 0; ; waited += busyRetryMs) {
    try {
      handle.statement('begin immediate').run.run()
      return
    } catch (error) {
      const busy = ((error as { errcode?: number }).errcode ?? 0) % 256 === sqliteBusy
      if (!busy || waited >= busyLimitMs) throw error
      await new Promise((resolve) => setTimeout(resolve, busyRetryMs))
    }
  }
}

/** Runs the units of a transaction, and returns the functions that settle them after the commit. */
async function runUnits<Tx>(handle: SqliteHandle, tx: Tx, batch: Waiting<Tx>[]): Promise<(() => void)[]> {
  const [only] = batch
  // A single unit needs no savepoint: if it fails, the whole transaction is rolled back.
  if (only && batch.length === 1) return [await runUnit(handle, tx, only)]
  const [save, undo, release] = ['savepoint unit', 'rollback to unit', 'release unit'].map(
    (sql) => handle.statement(sql).run,
  ) as [StatementSync, StatementSync, StatementSync]
  const settlers: (() => void)[] = []
  for (const waiting of batch) {
    save.run()
    try {
      settlers.push(await runUnit(handle, tx, waiting))
    } catch (error) {
      // A full disk or an I/O error rolls back the whole transaction, so no unit in it may resolve.
      if (!handle.db.isTransaction) throw error
      undo.run()
      settlers.push(() => waiting.reject(error))
    }
    release.run()
  }
  return settlers
}

async function runUnit<Tx>({ db }: SqliteHandle, tx: Tx, { unit, resolve }: Waiting<Tx>): Promise<() => void> {
  const value = (await unit(tx)) as never
  if (!db.isTransaction) throw new Error('The database rolled back the transaction during a unit')
  return () => resolve(value)
}
