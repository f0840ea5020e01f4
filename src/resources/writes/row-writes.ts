import type { Queryable } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'
import type { RowPrecondition } from '../../storage/rows/precondition.ts'
import type { Changed, Row } from '../../storage/rows/rows.ts'
import { assertStorable } from '../access/enforce.ts'
import type { Reach, RowAccess } from '../access/rules.ts'
import type { Served } from '../declaration.ts'
import type { Deletion } from '../relations/reference.ts'
import type { GuardedChange } from './guard.ts'
import { afterHooks, publish, type WriteBy } from './hooks.ts'

export type Values = Record<string, unknown>

/** Inserts a row with values of all fields. */
export type Insert = (values: Values) => Promise<Changed>

/** Runs a change through the resource's guard, if it has one. */
const guarded = <T>({ guard }: Served, tx: Queryable, change: GuardedChange, run: () => Promise<T | undefined>) =>
  guard ? guard.change(tx, change, run) : run()

/** Returns the values that a change sets, without undefined values, whose fields stay unchanged. */
export const present = (values: Values): Values =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined))

export interface RowChange {
  id: RowId
  values: Values
  precondition: RowPrecondition
  /** The rows that the access rules let the caller store; undefined means all. */
  access: RowAccess | undefined
  /** The rows that the caller can refer to; undefined means all. */
  reach: Reach | undefined
  /** True for the author's code, which may change locked rows. */
  ignoresLocks?: boolean
}

/**
 * Changes a row and runs all steps of a change: guard, locks, hooks, references, totals, access rules and event.
 * Returns undefined if no row meets the precondition.
 */
export async function changeRow(
  served: Served,
  tx: Queryable,
  change: RowChange,
  by: WriteBy,
): Promise<Row | undefined> {
  const { id, values, access, ignoresLocks = false } = change
  const { caller } = by
  const written = await guarded(served, tx, { id, values, caller }, () => updateRow(served, tx, change, by))
  if (written === undefined) return undefined
  const { changed, before } = written
  if (access) await assertStorable(served, tx, access, changed.row)
  if (!ignoresLocks && served.lock?.placed) await served.lock.placed(tx, written.values)
  await publish(served.announce, tx, { table: served.declaration.table, change: 'updated', ...changed }, by)
  if (!before || !served.hooks?.changed) return changed.row
  await served.hooks.changed(tx, before, changed.row, by)
  return afterHooks({ rows: served.rows, table: served.declaration.table }, tx, changed.row, by)
}

/** A changed row, the values that were stored and, if there are hooks, the row before the change. */
interface Written {
  changed: Changed
  values: Values
  before: Row | undefined
}

async function updateRow(
  served: Served,
  tx: Queryable,
  { id, values: sent, precondition, reach, ignoresLocks }: RowChange,
  by: WriteBy,
): Promise<Written | undefined> {
  const { references, rows, lock, totals, hooks, declaration, db } = served
  let values = sent
  let settle = totals && (await totals.changed(tx, id, values, precondition))
  if (totals && settle === undefined) return undefined
  if (lock && !ignoresLocks && !(await lock.one(tx, id, precondition, 'change'))) return undefined
  let before: Row | undefined
  if (hooks?.changing || hooks?.changed) {
    // Lock the row, so that it cannot change between the hook and the update.
    before = await rows.readIn(tx, id, { precondition, lock: db.engine.lockRows })
    if (before === undefined) return undefined
    if (hooks.changing) {
      values = await hooks.changing(tx, before, { ...before, ...present(values) }, by)
      settle = totals && (await totals.changed(tx, id, values, precondition))
    }
  }
  if (references && !(await references.changed(tx, { id, precondition }, values, reach))) return unmatched(before)
  const updated = await rows.update(tx, id, values, precondition, by.now)
  if (updated === undefined) return unmatched(before)
  const shown = settle && (await settle(by))
  // If the row refers to itself, its own totals may have changed as well.
  const own = shown?.find((one) => one.table === declaration.table && one.id === id)
  return { changed: own ? { ...updated, row: own.row } : updated, values, before }
}

/**
 * Handles an update that matched no row. If the row matched before its hook ran (`before`), throws an error, so that
 * the hook's writes are rolled back; otherwise returns undefined.
 */
function unmatched(before: Row | undefined): undefined {
  if (before) throw new Error('A hook changed the row that is being changed: return the fields to change instead')
  return undefined
}

/** The caller who adds a row, the time, and the rows that the caller may store and refer to. */
interface Addition extends Deletion {
  access: RowAccess | undefined
  /** True for the author's code, which may add rows to locked rows. */
  ignoresLocks?: boolean
}

/**
 * Inserts a row and runs all steps of a creation: hooks, references, totals, access rules, locks and event. `insert`
 * receives the values after the hook `creating`.
 */
export async function addRow(
  served: Served,
  tx: Queryable,
  sent: Values,
  { access, reach, ignoresLocks = false, ...by }: Addition,
  insert: Insert,
): Promise<Row> {
  const { hooks, declaration } = served
  const values = hooks?.creating ? Object.assign(sent, await hooks.creating(tx, sent, by)) : sent
  const settle = served.totals && (await served.totals.created(tx, values))
  if (served.references) await served.references.created(tx, values, reach)
  Object.assign(values, declaration.computed.initial)
  const { row, subscribed } = await insert(values)
  if (settle) await settle(by)
  if (access) await assertStorable(served, tx, access, row)
  if (served.lock?.placed && !ignoresLocks) await served.lock.placed(tx, values)
  await publish(served.announce, tx, { table: declaration.table, change: 'created', row, subscribed }, by)
  if (!hooks?.created) return row
  await hooks.created(tx, row, by)
  return afterHooks({ rows: served.rows, table: declaration.table }, tx, row, by)
}

/** A row to delete, and the rows of other collections that the caller can read (undefined means all). */
interface RowDeletion {
  id: RowId
  precondition: RowPrecondition
  reach: Reach | undefined
}

/** Deletes a row and runs all steps of a deletion. Returns false if no row meets the precondition. */
export async function deleteRow(
  served: Served,
  tx: Queryable,
  { id, precondition, reach }: RowDeletion,
  by: WriteBy,
): Promise<boolean> {
  const removal = { id, values: null, caller: by.caller }
  const deleted = await guarded(served, tx, removal, () => served.remove(tx, id, precondition, { ...by, reach }))
  if (deleted === undefined) return false
  await publish(served.announce, tx, { table: served.declaration.table, change: 'deleted', ...deleted }, by)
  return true
}
