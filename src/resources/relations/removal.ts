import type { Database } from '../../storage/database.ts'
import { lockedRow } from '../../storage/rows/related-rows.ts'
import type { Deleted } from '../../storage/rows/rows.ts'
import type { Declaration } from '../declaration.ts'
import {
  findDoomed,
  findReleased,
  maxDependents,
  type Removable,
  type Removal,
  refuseInUse,
  refuseLocked,
} from './dependents.ts'
import type { Deletion, Remove } from './reference.ts'
import { isDoomed, lockTotals, prepareRemoval, simpleRemover } from './removal-totals.ts'

/**
 * Returns the function that deletes rows of a collection: it deletes or releases what refers to them first, each with its
 * event, or throws 409 RESOURCE_IN_USE or RESOURCE_LOCKED. The event of the row itself is left to the caller. `all` holds
 * every collection of the service, in its order.
 */
export function remover(
  { engine }: Pick<Database, 'engine'>,
  own: Removable,
  all: ReadonlyMap<Declaration, Removable>,
): Remove {
  if (own.children.length === 0) return simpleRemover(own)
  const { table } = own.declaration
  return async (tx, id, precondition, deletion) => {
    const settle = await prepareRemoval(own, tx, id, precondition)
    if (settle === undefined) return undefined
    // Locked first: from here on nobody else can refer to the row.
    const row = await lockedRow(tx, { table, fields: ['id'], id, precondition, lock: engine.lockForRemoval })
    if (row === undefined) return undefined
    const removal: Removal = { tx, engine, all, own, id, doomed: new Map([[own, [id]]]), left: maxDependents }
    await findDoomed(removal)
    await refuseInUse(removal, deletion.reach)
    const released = await findReleased(removal)
    await refuseLocked(removal, released)
    await release(removal, released, deletion)
    const settlements = [settle, ...(await lockTotals(removal))]
    const result = await removeDoomed(removal, deletion)
    for (const one of settlements) await one(deletion, (row) => isDoomed(removal, row))
    return result
  }
}

/** Removes the references of rows that stay. */
async function release(
  { tx }: Removal,
  released: Awaited<ReturnType<typeof findReleased>>,
  { caller, now }: Deletion,
): Promise<void> {
  for (const [{ rows, announce }, fieldsOfRows] of released) {
    const byFields = Map.groupBy(fieldsOfRows, ([, fields]) => fields.join())
    for (const [fields, entries] of byFields) {
      const values = Object.fromEntries(fields.split(',').map((field) => [field, null]))
      const ids = entries.map(([id]) => id)
      for (const { row, subscribed } of await rows.updateAll(tx, ids, values, now)) {
        if (subscribed) await announce(tx, 'updated', row, caller, now)
      }
    }
  }
}

/** Deletes the rows, children first; one statement per collection, because its rows may refer to each other. */
async function removeDoomed({ tx, all, own, id, doomed }: Removal, { caller, now }: Deletion) {
  let result: Deleted | undefined
  for (const side of [...all.values()].toReversed()) {
    const ids = doomed.get(side) ?? []
    if (ids.length === 0) continue
    const removed = new Map((await side.rows.removeAll(tx, ids)).map((one) => [one.row.id, one]))
    // Those found last are the farthest from the row.
    for (const child of ids.toReversed()) {
      const deleted = removed.get(child)
      if (side === own && child === id) result = deleted
      else if (deleted?.subscribed)
        await side.announce(tx, 'deleted', withParents(side, deleted.row, removed), caller, now)
    }
  }
  return result
}

/** A deleted row with those of its own collection that it referred to and that were deleted with it, which rules can name. */
function withParents({ declaration }: Removable, row: Deleted['row'], removed: ReadonlyMap<number, Deleted>) {
  const { path, references } = declaration
  const parents = references
    .filter((reference) => reference.path === path)
    .map(({ name, field }) => [name, removed.get((row as Record<string, unknown>)[field] as number)?.row])
  return { ...row, ...Object.fromEntries(parents) }
}
