import type { Database, Queryable } from './database.ts'
import type { Engine } from './engine.ts'
import type { IdType, RowId } from './ids.ts'
import { integerRows } from './rows/integer-rows.ts'

export interface RowsToLock {
  table: string
  idType: IdType
  ids: readonly RowId[]
}

/** The row locks of a transaction and its retries. */
interface UnitLocks {
  /** The rows that any attempt has locked or tried to lock, by table. */
  known: Map<string, { idType: IdType; ids: Set<RowId> }>
  /** The rows that this attempt has locked, by table. `last` is the greatest of them. */
  held: Map<string, Set<RowId>>
  last: { table: string; id: RowId } | null
  isLastAttempt: boolean
  /** True if this attempt failed because a row that it tried to lock out of order was already locked. */
  isOutOfOrder: boolean
}

const maxAttempts = 10

const locksOf = new WeakMap<Queryable, UnitLocks>()

/**
 * Returns the database with a `write` that retries in a new transaction after a deadlock, or if `lockRows` would have
 * to wait for a lock out of order. The new transaction first takes all known locks in order. Rejects after the tenth
 * attempt. The callback of `write` must have no effect outside its transaction.
 */
export function repeatingWrites(db: Database): Database {
  const { engine } = db
  const { isRepeatable } = engine
  if (isRepeatable === null) return db
  const write: Database['write'] = async (unit) => {
    const known: UnitLocks['known'] = new Map()
    for (let attempt = 1; ; attempt++) {
      const isLastAttempt = attempt === maxAttempts
      const locks: UnitLocks = { known, held: new Map(), last: null, isLastAttempt, isOutOfOrder: false }
      try {
        return await db.write(async (tx) => {
          locksOf.set(tx, locks)
          await lockKnown(tx, engine, known)
          return unit(tx)
        })
      } catch (error) {
        if (isLastAttempt || !(locks.isOutOfOrder || isRepeatable(error))) throw error
      }
    }
  }
  return { ...db, write }
}

async function lockKnown(tx: Queryable, engine: Engine, known: UnitLocks['known']): Promise<void> {
  for (const [table, { idType, ids }] of [...known].toSorted(([one], [other]) => compare(one, other))) {
    await lockRows(tx, engine, { table, idType, ids: [...ids] })
  }
}

const compare = <T extends string | number>(one: T, other: T) => (one < other ? -1 : one > other ? 1 : 0)

/**
 * Locks rows until the transaction ends. Transactions that lock rows only with this function cannot deadlock: it waits
 * only for rows that come after all rows already locked, by table and id. If any other row is locked, it rejects, and
 * `repeatingWrites` retries.
 */
export async function lockRows(tx: Queryable, engine: Engine, rows: RowsToLock): Promise<void> {
  const locks = locksOf.get(tx)
  if (locks) return lockWanted(tx, engine, locks, wantedOf(locks, rows))
  await integerRows(tx, engine, { ...rows, fields: [], lock: engine.lockRows })
}

/**
 * Like `lockRows`, for a row that the next statement locks anyway. Runs no statement if waiting for that lock is safe.
 */
export async function beforeLock(tx: Queryable, engine: Engine, rows: RowsToLock): Promise<void> {
  const locks = locksOf.get(tx)
  if (locks === undefined) return
  const wanted = wantedOf(locks, rows)
  if (isInOrder(locks, wanted)) hold(locks, wanted)
  else await lockWanted(tx, engine, locks, wanted)
}

const wantedOf = ({ held }: UnitLocks, { ids, ...rows }: RowsToLock): RowsToLock => ({
  ...rows,
  ids: ids.filter((id) => !held.get(rows.table)?.has(id)),
})

async function lockWanted(tx: Queryable, engine: Engine, locks: UnitLocks, wanted: RowsToLock): Promise<void> {
  const { table, idType, ids } = wanted
  if (ids.length === 0) return
  const known = locks.known.get(table) ?? { idType, ids: new Set() }
  for (const id of ids) known.ids.add(id)
  locks.known.set(table, known)
  const mayWait = locks.isLastAttempt || isInOrder(locks, wanted)
  const lock = mayWait ? engine.lockRows : engine.lockRowsNow
  try {
    await integerRows(tx, engine, { ...wanted, fields: [], lock })
  } catch (error) {
    locks.isOutOfOrder ||= !mayWait && engine.isLockTimeout(error)
    throw error
  }
  hold(locks, wanted)
}

function hold(locks: UnitLocks, { table, ids }: RowsToLock): void {
  const held = locks.held.get(table) ?? new Set()
  locks.held.set(table, held)
  for (const id of ids) {
    held.add(id)
    if (isAfter(locks, table, id)) locks.last = { table, id }
  }
}

const isInOrder = (locks: UnitLocks, { table, ids }: RowsToLock) => ids.every((id) => isAfter(locks, table, id))

const isAfter = ({ last }: UnitLocks, table: string, id: RowId) =>
  last === null || (compare(table, last.table) || compare(id, last.id as typeof id)) > 0
