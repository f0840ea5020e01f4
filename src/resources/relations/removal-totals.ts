import type { Queryable } from '../../storage/database.ts'
import type { Engine } from '../../storage/engine.ts'
import type { RowId } from '../../storage/ids.ts'
import type { RowPrecondition } from '../../storage/rows/precondition.ts'
import type { RowKey, Settle } from '../computed/updater.ts'
import type { DeletionContext, Removable } from './dependents.ts'
import type { Remove } from './reference.ts'

/** Returns the function that deletes rows that no other rows can refer to. */
export function simpleRemover(own: Removable, engine: Engine): Remove {
  const { rows, totals, lock, keep, hooks } = own
  const isHooked = hooks?.removing !== undefined || hooks?.removed !== undefined
  if (totals === undefined && lock === undefined && keep === undefined && !isHooked)
    return (tx, id, precondition) => rows.remove(tx, id, precondition)
  return async (tx, id, precondition, deletion) => {
    const settle = await prepareRemoval(own, tx, id, precondition)
    if (settle === undefined) return undefined
    const before = isHooked ? await rows.readIn(tx, id, { precondition, lock: engine.lockForRemoval }) : undefined
    if (isHooked && before === undefined) return undefined
    if (before) await hooks?.removing?.(tx, before, deletion)
    const removed = await rows.remove(tx, id, before ? {} : precondition)
    if (before && !removed) throw new Error(`A hook of ${own.declaration.path} deleted the row that is being deleted`)
    if (removed) await keep?.(tx, [removed.row], deletion)
    if (removed) await settle(deletion)
    if (removed && before) await hooks?.removed?.(tx, before, deletion)
    return removed
  }
}

/**
 * Prepares the deletion of a row by locking the rows whose totals include it. Returns the function that updates these
 * totals; undefined only if no row meets the precondition. Throws RESOURCE_LOCKED if the row is locked.
 */
export async function prepareRemoval(
  { totals, lock }: Removable,
  tx: Queryable,
  id: RowId,
  precondition: RowPrecondition,
): Promise<Settle | undefined> {
  const settle = totals ? await totals.removed(tx, [id], precondition) : async () => []
  if (settle === undefined) return undefined
  if (lock && !(await lock.one(tx, id, precondition, 'remove'))) return undefined
  return settle
}

/**
 * Locks the rows whose totals include the dependent rows to delete, and returns the functions that update these totals.
 */
export async function lockTotals({ tx, own, id, doomed }: DeletionContext): Promise<Settle[]> {
  const settlements: Settle[] = []
  for (const [side, ids] of doomed) {
    const others = side === own ? ids.filter((one) => one !== id) : ids
    const settle = others.length > 0 ? await side.totals?.removed(tx, others, {}) : undefined
    if (settle) settlements.push(settle)
  }
  return settlements
}

/** Returns true for a row that is being deleted, which needs no update of its own totals. */
export const isDoomed = ({ doomed }: DeletionContext, { table, id }: RowKey): boolean =>
  [...doomed].some(([{ declaration }, ids]) => declaration.table === table && ids.includes(id))
