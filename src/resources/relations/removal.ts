import type { Database, Queryable } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'
import { lockedRow } from '../../storage/rows/related-rows.ts'
import type { Changed, Deleted } from '../../storage/rows/rows.ts'
import type { RemovalUpdates } from '../computed/updater.ts'
import type { Declaration } from '../declaration.ts'
import { publish } from '../writes/hooks.ts'
import {
  type DeletionContext,
  findDoomed,
  findReleased,
  maxDependents,
  type Removable,
  refuseInUse,
  refuseLocked,
} from './dependents.ts'
import type { Deletion, Remove } from './reference.ts'
import { isDoomed, lockTotals, prepareRemoval, simpleRemover } from './removal-totals.ts'

/**
 * Returns the function that deletes rows of a collection. It also deletes the referring rows or clears their
 * references, with an event for each of them, or throws 409 RESOURCE_IN_USE or RESOURCE_LOCKED. The caller adds the
 * event for the row itself. `all` contains every collection of the service, in the order of declaration.
 */
export function remover(
  { engine }: Pick<Database, 'engine'>,
  own: Removable,
  all: ReadonlyMap<Declaration, Removable>,
): Remove {
  if (own.children.length === 0) return simpleRemover(own, engine)
  const { table } = own.declaration
  return async (tx, id, precondition, deletion) => {
    const settle = await prepareRemoval(own, tx, id, precondition)
    if (settle === undefined) return undefined
    // Locked first: from here on, no other transaction can add references to the row.
    const row = await lockedRow(tx, { table, fields: ['id'], id, precondition, lock: engine.lockForRemoval })
    if (row === undefined) return undefined
    const removal: DeletionContext = { tx, engine, all, own, id, doomed: new Map([[own, [id]]]), left: maxDependents }
    await findDoomed(removal)
    await refuseInUse(removal, deletion)
    const released = await findReleased(removal)
    await refuseLocked(removal, released)
    const hooked = await runRemoving(removal, deletion)
    const events = new Map<string, () => Promise<void>>()
    const updates: RemovalUpdates = {
      isGone: (row) => isDoomed(removal, row),
      updated: ({ table, id }, announce) => events.set(`${table} ${id}`, announce),
    }
    await release(removal, released, deletion, updates)
    const settlements = [settle, ...(await lockTotals(removal))]
    const result = await removeDoomed(removal, deletion)
    if (result === undefined && hooked.length > 0)
      throw new Error(`A hook deleted the ${own.declaration.noun} that is being deleted`)
    for (const removed of hooked) await removed()
    for (const one of settlements) await one(deletion, updates)
    for (const announce of events.values()) await announce()
    return result
  }
}

/** Clears the references to deleted rows in the rows that remain. */
async function release(
  { tx }: DeletionContext,
  released: Awaited<ReturnType<typeof findReleased>>,
  by: Deletion,
  { updated }: RemovalUpdates,
): Promise<void> {
  for (const [side, fieldsOfRows] of released) {
    const { declaration, announce } = side
    const byFields = Map.groupBy(fieldsOfRows, ([, fields]) => fields.join())
    for (const [fields, entries] of byFields) {
      const values = Object.fromEntries(fields.split(',').map((field) => [field, null]))
      const ids = entries.map(([id]) => id)
      for (const changed of await changeAll(tx, side, ids, values, by)) {
        const { table } = declaration
        updated({ table, id: changed.row.id }, () =>
          publish(announce, tx, { table, change: 'updated', ...changed }, by),
        )
      }
    }
  }
}

/**
 * Sets the same values in several rows: one by one if the collection has hooks for changes, otherwise with one
 * statement.
 */
async function changeAll(
  tx: Queryable,
  { rows, hooks }: Removable,
  ids: readonly RowId[],
  values: object,
  by: Deletion,
) {
  if (!hooks?.changing && !hooks?.changed) return rows.updateAll(tx, ids, values, by.now)
  const all: Changed[] = []
  for (const id of ids) {
    const before = await rows.readIn(tx, id)
    if (before === undefined) continue
    const final = hooks.changing ? await hooks.changing(tx, before, { ...before, ...values }, by) : values
    const changed = await rows.update(tx, id, final, {}, by.now)
    if (changed === undefined) continue
    all.push(changed)
    await hooks.changed?.(tx, before, changed.row, by)
  }
  return all
}

/**
 * Runs the hook `removing` for each row to delete, children first. Returns functions that run the hook `removed`, in
 * the same order.
 */
async function runRemoving({ tx, all, doomed }: DeletionContext, by: Deletion): Promise<(() => Promise<unknown>)[]> {
  const after: (() => Promise<unknown>)[] = []
  for (const side of [...all.values()].toReversed()) {
    const { rows, hooks } = side
    if (!hooks?.removing && !hooks?.removed) continue
    for (const id of (doomed.get(side) ?? []).toReversed()) {
      const row = await rows.readIn(tx, id)
      if (row === undefined) continue
      await hooks.removing?.(tx, row, by)
      after.push(async () => hooks.removed?.(tx, row, by))
    }
  }
  return after
}

/**
 * Deletes the rows, children first. One statement deletes all rows of a collection, because they may refer to each
 * other.
 */
async function removeDoomed({ tx, all, own, id, doomed }: DeletionContext, deletion: Deletion) {
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
    // Publish the events in reverse order: the ids found last are the farthest from the deleted row.
    for (const child of ids.toReversed()) {
      const deleted = removed.get(child)
      if (side === own && child === id) result = deleted
      else if (deleted) {
        const row = withParents(side, deleted.row, removed)
        const { table } = side.declaration
        await publish(side.announce, tx, { table, change: 'deleted', row, subscribed: deleted.subscribed }, deletion)
      }
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
