import type { Database } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'
import { lockedRow } from '../../storage/rows/related-rows.ts'
import type { Deleted } from '../../storage/rows/rows.ts'
import type { RemovalUpdates } from '../computed/updater.ts'
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
 * Returns the function that deletes rows of a collection. It first deletes the referring rows or clears their
 * references, with an event for each row, or throws 409 RESOURCE_IN_USE or RESOURCE_LOCKED. The caller adds the event
 * for the row itself. `all` contains every collection of the service, in the order of declaration.
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
    // Locked first: from here on, no other transaction can add references to the row.
    const row = await lockedRow(tx, { table, fields: ['id'], id, precondition, lock: engine.lockForRemoval })
    if (row === undefined) return undefined
    const removal: Removal = { tx, engine, all, own, id, doomed: new Map([[own, [id]]]), left: maxDependents }
    await findDoomed(removal)
    await refuseInUse(removal, deletion)
    const released = await findReleased(removal)
    await refuseLocked(removal, released)
    const events = new Map<string, () => Promise<void>>()
    const updates: RemovalUpdates = {
      isGone: (row) => isDoomed(removal, row),
      updated: ({ table, id }, announce) => events.set(`${table} ${id}`, announce),
    }
    await release(removal, released, deletion, updates)
    const settlements = [settle, ...(await lockTotals(removal))]
    const result = await removeDoomed(removal, deletion)
    for (const one of settlements) await one(deletion, updates)
    for (const announce of events.values()) await announce()
    return result
  }
}

/** Clears the references of rows that remain. */
async function release(
  { tx }: Removal,
  released: Awaited<ReturnType<typeof findReleased>>,
  { caller, now }: Deletion,
  { updated }: RemovalUpdates,
): Promise<void> {
  for (const [{ declaration, rows, announce }, fieldsOfRows] of released) {
    const byFields = Map.groupBy(fieldsOfRows, ([, fields]) => fields.join())
    for (const [fields, entries] of byFields) {
      const values = Object.fromEntries(fields.split(',').map((field) => [field, null]))
      const ids = entries.map(([id]) => id)
      for (const { row, subscribed } of await rows.updateAll(tx, ids, values, now)) {
        const { table } = declaration
        if (subscribed) updated({ table, id: row.id }, () => announce(tx, 'updated', row, caller, now))
      }
    }
  }
}

/**
 * Deletes the rows, children first, with one statement per collection, because rows of a collection may refer to each
 * other.
 */
async function removeDoomed({ tx, all, own, id, doomed }: Removal, deletion: Deletion) {
  const { caller, now } = deletion
  let result: Deleted | undefined
  for (const side of [...all.values()].toReversed()) {
    const ids = doomed.get(side) ?? []
    if (ids.length === 0) continue
    const removed = new Map((await side.rows.removeAll(tx, ids)).map((one) => [one.row.id, one]))
    await side.keep?.(
      tx,
      [...removed.values()].map(({ row }) => row),
      deletion,
    )
    // The ids found last are the farthest from the row.
    for (const child of ids.toReversed()) {
      const deleted = removed.get(child)
      if (side === own && child === id) result = deleted
      else if (deleted?.subscribed)
        await side.announce(tx, 'deleted', withParents(side, deleted.row, removed), caller, now)
    }
  }
  return result
}

/**
 * Returns a deleted row with the deleted rows of its own collection that it referred to, because access rules can
 * inspect them.
 */
function withParents({ declaration }: Removable, row: Deleted['row'], removed: ReadonlyMap<RowId, Deleted>) {
  const { path, references } = declaration
  const parents = references
    .filter((reference) => reference.path === path)
    .map(({ name, field }) => [name, removed.get((row as Record<string, unknown>)[field] as RowId)?.row])
  return { ...row, ...Object.fromEntries(parents) }
}
