import type { StatementSync } from 'node:sqlite'
import type { OnCommit, Write } from '../database.ts'
import type { ThreadLock } from '../thread-lock.ts'
import type { SqliteHandle } from './driver.ts'

interface Waiting<Tx> {
  unit: (tx: Tx) => Promise<unknown>
  resolve: (value: never) => void
  reject: (reason: unknown) => void
}

export interface GroupCommitOptions {
  /** Monotonic clock in ms. */
  monotonic?: () => number
  /** Counts the I/O events that this thread's event loop has processed. */
  ioEvents?: () => number
  /** Held during each transaction; null if no other thread writes. */
  lock?: ThreadLock | null
  /** Called at the beginning of each transaction. */
  onBegin?: () => void
  /** Called at the beginning of each unit; returns a function that is called if the unit is rolled back. */
  onUnit?: () => () => void
  /** Runs in each transaction after its units; if it rejects, the transaction is rolled back. */
  beforeCommit?: () => Promise<void>
  /** Called after the commit, when other connections see the changes. */
  onCommit?: () => void
  onRollback?: () => void
  /** Makes all commits so far durable. By default, does nothing, because they are already durable. */
  sync?: () => void | Promise<void>
  /**
   * Called with the error of a failed sync. By default, the error is thrown as an uncaught exception, which ends the
   * thread.
   */
  onSyncFailure?: (error: unknown) => void
  /** Called after the sync, before the units resolve. */
  onSynced?: OnCommit
}

const unitsPerCommit = 512
/** Maximum time that the first unit waits for others while the event loop is busy. */
const maxGatherMs = 2
const busyRetryMs = 5
const busyLimitMs = 5_000
const sqliteBusy = 5

/**
 * Group commit: units that arrive together share one `BEGIN IMMEDIATE … COMMIT` and one sync, and resolve after the
 * sync. A transaction begins in the first event loop iteration without I/O or, while the loop is busy, once the first
 * unit has waited for `maxGatherMs` or 512 units are waiting. Units that arrive during a sync are gathered for the next
 * one. Each unit runs in its own SAVEPOINT, so a failed unit undoes only its own writes.
 *
 * A unit must await nothing but the database, because all later units wait for it.
 */
export function groupCommit<Tx>(handle: SqliteHandle, tx: Tx, options: GroupCommitOptions = {}): Write<Tx> {
  const { monotonic = () => performance.now(), ioEvents = eventsOfLoop, lock = null } = options
  const { sync = () => {}, onSyncFailure = throwOutside, onSynced = () => {} } = options
  const waiting: Waiting<Tx>[] = []
  let isRunning = false
  let failure: { error: unknown } | undefined

  async function runBatch(): Promise<void> {
    // Units that arrive while this thread waits for the lock belong to the same transaction.
    await lock?.lock()
    const batch = waiting.splice(0, unitsPerCommit)
    const beganMs = monotonic()
    const settlers = await commit(handle, tx, batch, options).finally(() => lock?.unlock())
    if (settlers.length > 0) {
      try {
        await sync()
      } catch (error) {
        return fail(batch, error)
      }
      onSynced(batch.length, (monotonic() - beganMs) / 1_000)
      for (const settle of settlers) settle()
    }
    isRunning = waiting.length > 0
    if (isRunning) gather(-1, monotonic())
  }

  /** Rejects the batch and all later units. A second sync might succeed although the disk has lost the commits. */
  function fail(batch: Waiting<Tx>[], error: unknown): void {
    failure = { error }
    for (const { reject } of [...batch, ...waiting.splice(0)]) reject(error)
    onSyncFailure(error)
  }

  /** Runs a batch after the first iteration without I/O; `known` is the number of events before this iteration. */
  function gather(known: number, sinceMs: number): void {
    const events = ioEvents()
    const isFull = waiting.length >= unitsPerCommit || monotonic() - sinceMs >= maxGatherMs
    if (events === known || isFull) void runBatch()
    else setImmediate(gather, events, sinceMs)
  }

  return (unit) =>
    new Promise((resolve, reject) => {
      if (failure) return reject(failure.error)
      waiting.push({ unit, resolve, reject })
      if (isRunning) return
      isRunning = true
      setImmediate(gather, -1, monotonic())
    })
}

/**
 * Runs units in a transaction. Returns the functions that settle them; none if the units have already been rejected.
 */
async function commit<Tx>(
  handle: SqliteHandle,
  tx: Tx,
  batch: Waiting<Tx>[],
  { onBegin = () => {}, onUnit, beforeCommit, onCommit = () => {}, onRollback = () => {} }: GroupCommitOptions,
): Promise<(() => void)[]> {
  const { db } = handle
  try {
    await begin(handle)
    onBegin()
    const settlers = await runUnits(handle, tx, batch, onUnit)
    await beforeCommit?.()
    handle.statement('commit').run.run()
    onCommit()
    return settlers
  } catch (error) {
    if (db.isOpen && db.isTransaction) db.exec('rollback')
    onRollback()
    for (const { reject } of batch) reject(error)
    return []
  }
}

function throwOutside(error: unknown): void {
  setImmediate(() => {
    throw error
  })
}

const eventsOfLoop = () => performance.nodeTiming.uvMetricsInfo.events

/** Begins a transaction. Waits up to 5 s, without blocking the event loop, if another process holds the write lock. */
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
async function runUnits<Tx>(
  handle: SqliteHandle,
  tx: Tx,
  batch: Waiting<Tx>[],
  onUnit: GroupCommitOptions['onUnit'],
): Promise<(() => void)[]> {
  const [only] = batch
  // A single unit needs no savepoint: if it fails, the whole transaction is rolled back.
  if (only && batch.length === 1) return [await runUnit(handle, tx, only)]
  const [save, undo, release] = ['savepoint unit', 'rollback to unit', 'release unit'].map(
    (sql) => handle.statement(sql).run,
  ) as [StatementSync, StatementSync, StatementSync]
  const settlers: (() => void)[] = []
  for (const waiting of batch) {
    save.run()
    const onUndo = onUnit?.()
    try {
      settlers.push(await runUnit(handle, tx, waiting))
    } catch (error) {
      // A full disk or an I/O error rolls back the whole transaction, so no unit in it may resolve.
      if (!handle.db.isTransaction) throw error
      undo.run()
      onUndo?.()
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
