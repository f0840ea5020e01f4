import { allOf, type RowAccess } from '../../resources/access/rules.ts'
import { settable } from '../../resources/constraints/creation.ts'
import { checkImmutable } from '../../resources/constraints/kept-fields.ts'
import { checkChange, checkCreation } from '../../resources/constraints/writers.ts'
import type { Served } from '../../resources/declaration.ts'
import { idTypes } from '../../resources/id-types.ts'
import { notFound } from '../../resources/writes/change.ts'
import type { WriteBy } from '../../resources/writes/hooks.ts'
import { writableInside } from '../../resources/writes/inside.ts'
import { addRow, changeRow, deleteRow } from '../../resources/writes/row-writes.ts'
import { throwDuplicate } from '../../resources/writes/write-unit.ts'
import type { Queryable } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'
import { refusing } from '../refuse.ts'
import {
  auditChange,
  foundRow,
  lockedForChange,
  merged,
  type RowCalls,
  refuseFiles,
  shownRow,
  validBody,
} from './row-calls.ts'
import type { ReadCondition } from './row-conditions.ts'

type Values = Record<string, unknown>

/**
 * Returns the context methods with the rights of the caller: access rules, `locked`, `immutable` and the rules for
 * users apply as they do to requests. A forbidden write makes the request fail, with the same status as if the request
 * itself had made the write.
 */
export function callerCalls(served: Served, conditions: ReadCondition): RowCalls {
  const { path } = served.declaration
  return {
    shown: (row, { caller }) => {
      const { hides } = served.declaration
      const hidden = hides && !hides.unless(caller, row.id) ? hides.fields : []
      return Object.fromEntries(Object.entries(shownRow(served, row)).filter(([field]) => !hidden.includes(field)))
    },
    test: async (condition, { caller }) => {
      const test = await conditions(condition, caller)
      const access = await served.accessOf?.(caller)
      return access ? allOf(access.read, test) : test
    },
    find: async (tx, id, { caller }, options) => {
      const access = await served.accessOf?.(caller)
      return foundRow(served, tx, id, { ...options, precondition: access ? { passes: access.read } : {} })
    },
    insert: (tx, given, by) => refusing(path, () => insertAsCaller(served, tx, given, by)),
    update: (tx, id, changes, by) => refusing(path, () => updateAsCaller(served, tx, { id, changes }, by)),
    remove: (tx, id, by) => refusing(path, () => removeAsCaller(served, tx, id, by)),
  }
}

async function insertAsCaller(served: Served, tx: Queryable, given: Values, by: WriteBy) {
  const { declaration, creator, accessOf, references, rows } = served
  const { caller } = by
  refuseFiles(declaration, given)
  const recorded = checkCreation(declaration.writers, given, caller)
  const ruled = await creator.callerOf?.(caller)
  const completed = creator.createdIn ? await creator.createdIn(tx, given, ruled) : creator.created(given, ruled)
  const values = validBody(served, completed)
  const [access, reach] = [await accessOf?.(caller), await references?.reachOf(caller)]
  if (access) values.createdBy = access.createdBy
  const id = idTypes[declaration.ids].assign(served.newUuid)
  const row = await addRow(served, tx, values, { ...by, access, reach }, (final) =>
    rows.insert(tx, id === undefined ? final : { ...final, id }, by.now),
  ).catch((error) => throwDuplicate(served, access, async () => values, error))
  await auditChange(served, tx, { id: row.id, fields: recorded, values }, by)
  return row
}

interface Change {
  id: RowId
  changes: Values
}

async function updateAsCaller(served: Served, tx: Queryable, { id, changes }: Change, by: WriteBy) {
  const { declaration, accessOf, references } = served
  const { caller } = by
  refuseFiles(declaration, changes)
  const [access, reach] = [await accessOf?.(caller), await references?.reachOf(caller)]
  await writableInside(served, tx, id, access)
  const sent = settable(declaration, changes)
  // Called before the row is locked, because the rows on which `locked` depends must be locked first.
  if (!served.totals) await served.lock?.one(tx, id, {}, 'change')
  const locked = await lockedForChange(served, tx, id, (before) => merged(served, before, sent))
  if (locked === undefined) throw notFound(served, id)
  const { before, values } = locked
  checkImmutable(declaration.immutable, before, values)
  const recorded = checkChange(declaration.writers, before, values, { caller, id })
  const precondition = access ? { passes: access.write } : {}
  const changed = await changeRow(served, tx, { id, values, precondition, access, reach }, by).catch((error) =>
    throwDuplicate(served, access, async () => ({ ...before, ...values }), error),
  )
  if (changed === undefined) throw await unmatched(served, tx, id, access)
  await auditChange(served, tx, { id, fields: recorded, values }, by)
  return changed
}

async function removeAsCaller(served: Served, tx: Queryable, id: RowId, by: WriteBy) {
  const { accessOf, referrers } = served
  const [access, reach] = [await accessOf?.(by.caller), await referrers?.(by.caller)]
  const precondition = access ? { passes: access.write } : {}
  if (!(await deleteRow(served, tx, { id, precondition, reach }, by))) throw await unmatched(served, tx, id, access)
}

/** Returns the 404 for a write that matched no row. Throws 403 if the caller can only read the row. */
async function unmatched(served: Served, tx: Queryable, id: RowId, access: RowAccess | undefined) {
  await writableInside(served, tx, id, access)
  return notFound(served, id)
}
