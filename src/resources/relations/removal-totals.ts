import type { RowId, Settle } from '../computed/updater.ts'
import type { Removable, Removal } from './dependents.ts'
import type { Remove } from './reference.ts'

/** Returns the function that deletes rows of a collection to which no other refers. */
export function simpleRemover({ rows, totals }: Removable): Remove {
  if (totals === undefined) return (tx, id, precondition) => rows.remove(tx, id, precondition)
  return async (tx, id, precondition, deletion) => {
    const settle = await totals.removed(tx, [id], precondition)
    const removed = settle && (await rows.remove(tx, id, precondition))
    if (removed) await settle(deletion)
    return removed
  }
}

/** Prepares the totals over the rows that are deleted with a row. */
export async function lockTotals({ tx, own, id, doomed }: Removal): Promise<Settle[]> {
  const settlements: Settle[] = []
  for (const [side, ids] of doomed) {
    const others = side === own ? ids.filter((one) => one !== id) : ids
    const settle = others.length > 0 ? await side.totals?.removed(tx, others, {}) : undefined
    if (settle) settlements.push(settle)
  }
  return settlements
}

/** True for a row that is deleted with another, so that its totals no longer matter. */
export const isDoomed = ({ doomed }: Removal, { table, id }: RowId): boolean =>
  [...doomed].some(([{ declaration }, ids]) => declaration.table === table && ids.includes(id))
