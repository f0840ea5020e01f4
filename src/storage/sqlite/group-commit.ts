import type { OnCommit, Write } from '../database.ts'
import type { SqliteHandle } from './driver.ts'

interface Waiting<Tx> {
  unit: (tx: Tx) => Promise<unknown>
  resolve: (value: never) => void
  reject: (reason: unknown) => void
}

export interface GroupCommitCallbacks {
  /** Called after the commit, before the units resolve. */
  onCommit?: OnCommit
  onRollback?: () => void
}

const unitsPerCommit = 512
const busyRetryMs = 5
const busyLimitMs = 5_000
const sqliteBusy = 5

/**
 * Group commit: units that arrive in the same event loop iteration share one `BEGIN IMMEDIATE … COMMIT` and one sync, and
 * resolve after the commit. Each unit runs in its own SAVEPOINT, so a failed unit undoes only its own writes.
 *
 * A unit must await nothing but the database, because all later units wait for it.
 */
export function groupCommit<Tx>(handle: SqliteHandle, tx: Tx, callbacks: GroupCommitCallbacks = {}): Write<Tx> {
  const { onCommit = () => {}, onRollback = () => {} } = callbacks
  const { db } = handle
  const waiting: Waiting<Tx>[] = []
  let isRunning = false

  async function runBatch(): Promise<void> {
    const batch = waiting.splice(0, unitsPerCommit)
    const beganMs = performance.now()
    try {
      await begin(handle)
      const settlers = await runUnits(handle, tx, batch)
      handle.statement('commit').run.run()
      onCommit(batch.length, (performance.now() - beganMs) / 1_000)
      for (const settle of settlers) settle()
    } catch (error) {
      if (db.isOpen && db.isTransaction) db.exec('rollback')
      onRollback()
      for (const { reject } of batch) reject(error)
    }
    isRunning = waiting.length > 0
    if (isRunning) setImmediate(runBatch)
  }

  return (unit) =>
    new Promise((resolve, reject) => {
      waiting.push({ unit, resolve, reject })
      if (isRunning) return
      isRunning = true
      setImmediate(runBatch)
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

async function runUnits<Tx>(handle: SqliteHandle, tx: Tx, batch: Waiting<Tx>[]): Promise<(() => void)[]> {
  const step = (sql: string) => handle.statement(sql).run.run()
  const settlers: (() => void)[] = []
  for (const { unit, resolve, reject } of batch) {
    step('savepoint unit')
    try {
      const value = (await unit(tx)) as never
      if (!handle.db.isTransaction) throw new Error('The database rolled back the transaction during a unit')
      settlers.push(() => resolve(value))
    } catch (error) {
      // A full disk or an I/O error rolls back the whole transaction, so no unit in it may resolve.
      if (!handle.db.isTransaction) throw error
      step('rollback to unit')
      settlers.push(() => reject(error))
    }
    step('release unit')
  }
  return settlers
}
