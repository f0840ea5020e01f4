import type { Queryable } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'
import type { RowPrecondition } from '../../storage/rows/precondition.ts'
import type { RowKey, Settle } from '../computed/updater.ts'
import type { Removable, Removal } from './dependents.ts'
import type { Remove } from './reference.ts'

/** Returns the function that deletes rows of a collection to which no other collection refers. */
export function simpleRemover(own: Removable): Remove {
  const { rows, totals, lock, keep } = own
  if (totals === undefined && lock === undefined && keep === undefined)
    return (tx, id, precondition) => rows.remove(tx, id, precondition)
  return async (tx, id, precondition, deletion) => {
    const settle = await prepareRemoval(own, tx, id, precondition)
    const removed = settle && (await rows.remove(tx, id, precondition))
    if (removed) await keep?.(tx, [removed.row], deletion)
    if (removed) await settle(deletion)
    return removed
  }
}

/**
 * Locks the rows with totals over a row, then the row itself. Throws RESOURCE_LOCKED if the row is locked against
 * deletion. Returns undefined if no row meets the precondition.
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

/** Prepares the totals that cover the rows deleted together with a row. */
export async function lockTotals({ tx, own, id, doomed }: Removal): Promise<Settle[]> {
  const settlements: Settle[] = []
  for (const [side, ids] of doomed) {
    const others = side === own ? ids.filter((one) => one !== id) : ids
    const settle = others.length > 0 ? await side.totals?.removed(tx, others, {}) : undefined
    if (settle) settlements.push(settle)
  }
  return settlements
}

/** Returns true for a row that is being deleted, so that its own totals no longer matter. */
export const isDoomed = ({ doomed }: Removal, { table, id }: RowKey): boolean =>
  [...doomed].some(([{ declaration }, ids]) => declaration.table === table && ids.includes(id))
