import { validated } from '../../resources/constraints/body-values.ts'
import { checkRules } from '../../resources/constraints/rules.ts'
import type { Declaration, Served } from '../../resources/declaration.ts'
import type { WriteBy } from '../../resources/writes/hooks.ts'
import type { changeRow } from '../../resources/writes/row-writes.ts'
import type { Queryable } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'
import { beforeLock } from '../../storage/repeating-writes.ts'
import type { RowTest } from '../../storage/rows/row-test.ts'
import type { Row } from '../../storage/rows/rows.ts'

type Values = Record<string, unknown>

/** The methods for rows of a collection, with the rights of the service or of the caller. */
export interface RowCalls {
  /**
   * Returns a test that matches the readable rows that meet the condition or, without one, all readable rows. Rejects
   * with `ConditionError` if the condition is invalid.
   */
  test: (condition: unknown, by: WriteBy) => Promise<RowTest>
  find: (tx: Queryable, id: RowId, by: WriteBy, options?: { lock?: boolean | undefined }) => Promise<Row | undefined>
  /** Returns a row as code sees it: with computed fields, but without revision data and fields that have no value. */
  shown: (row: Row, by: WriteBy) => Values
  insert: (tx: Queryable, values: Values, by: WriteBy) => Promise<Row>
  update: (tx: Queryable, id: RowId, changes: Values, by: WriteBy) => Promise<Row>
  remove: (tx: Queryable, id: RowId, by: WriteBy) => Promise<void>
}

/**
 * Reads a row. With `lock`, first locks the rows whose stored totals include it, and then the row itself, in the same
 * order as writes do.
 */
export async function foundRow(
  { declaration, rows, totals, db }: Served,
  tx: Queryable,
  id: RowId,
  { lock = false, precondition = {} }: { lock?: boolean | undefined; precondition?: Precondition } = {},
): Promise<Row | undefined> {
  if (!lock) return rows.readIn(tx, id, { precondition })
  await totals?.lock(tx, [id])
  await beforeLock(tx, db.engine, { table: declaration.table, idType: declaration.ids, ids: [id] })
  return rows.readIn(tx, id, { precondition, lock: db.engine.lockRows })
}

type Precondition = Parameters<typeof changeRow>[2]['precondition']

/**
 * Locks a row for a change, after the rows whose stored totals include its old or new values. Returns the row and the
 * values that are computed from it; undefined if there is no such row.
 */
export async function lockedForChange<V extends Values>(
  { declaration, rows, totals, db }: Served,
  tx: Queryable,
  id: RowId,
  valuesFrom: (before: Row) => V,
): Promise<{ before: Row; values: V } | undefined> {
  if (totals) {
    const seen = await rows.readIn(tx, id)
    if (seen === undefined) return undefined
    await totals.lock(tx, [id], valuesFrom(seen))
  }
  await beforeLock(tx, db.engine, { table: declaration.table, idType: declaration.ids, ids: [id] })
  const before = await rows.readIn(tx, id, { lock: db.engine.lockRows })
  return before && { before, values: valuesFrom(before) }
}

/** Records a change to `Writers.recorded` fields in the audit log. */
export async function auditChange(
  { guard }: Served,
  tx: Queryable,
  change: { id: RowId; fields: readonly string[]; values: Values },
  { caller }: WriteBy,
): Promise<void> {
  if (change.fields.length === 0) return
  const actor = { clientId: caller.clientId, subject: caller.subject }
  await guard?.record?.(tx, { ...change, caller, actor })
}

/** Throws if the values contain a file, because only requests can store files. */
export function refuseFiles({ files, path }: Declaration, values: Values): void {
  const named = files.find(({ field }) => values[field] !== undefined)
  if (named) throw new TypeError(`${path}: ${named.field} is a file, which only a request can store or remove`)
}

/**
 * Returns a row's validated values with the changes applied. A field that is undefined in `changes` keeps its value.
 */
export function merged(served: Served, before: Row, changes: Values): Values {
  const defined = Object.entries(changes).filter(([, value]) => value !== undefined)
  return validBody(served, { ...before, ...Object.fromEntries(defined) })
}

/** Returns a row as code sees it: with computed fields, but without revision data and fields that have no value. */
export const shownRow = ({ presenter }: Served, row: Row): Values => presentValues(presenter?.present(row) ?? row)

/** Returns values without revision data and fields that have no value. */
export function presentValues(row: Readonly<Values>): Values {
  const present: Values = {}
  for (const name in row) {
    const value = row[name]
    if (value !== null && value !== undefined && name !== 'revision' && name !== 'sharesSecond') present[name] = value
  }
  return present
}

/** Returns the validated values of all fields. Throws a `Problem` if the values would be invalid in a request. */
export function validBody(served: Served, values: Values): Values {
  const body = validated(served, values)
  checkRules(served.declaration, body)
  return body
}
