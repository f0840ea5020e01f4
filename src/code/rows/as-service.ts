import { callerId, type RuleCaller } from '../../resources/access/rules.ts'
import { creator } from '../../resources/constraints/creator.ts'
import { checkChange, checkCreation } from '../../resources/constraints/writers.ts'
import type { CollectionOptions, Declaration, Served } from '../../resources/declaration.ts'
import { idTypes } from '../../resources/id-types.ts'
import type { WriteBy } from '../../resources/writes/hooks.ts'
import { addRow, changeRow, deleteRow } from '../../resources/writes/row-writes.ts'
import type { Queryable } from '../../storage/database.ts'
import type { RowId } from '../../storage/ids.ts'
import { accountProblems, withServiceScopes } from '../accounts.ts'
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

/** Returns the context methods with the rights of the service: access rules, `locked` and `immutable` do not apply. */
export function serviceCalls(served: Served, options: CollectionOptions, conditions: ReadCondition): RowCalls {
  const { declaration, rows, newUuid } = served
  const { writers, path, noun } = declaration
  const add = completer(declaration, options)
  const missing = (id: RowId) => new Error(`There is no ${noun} ${id}`)
  const rights = { access: undefined, reach: undefined, ignoresLocks: true }
  const guarded = <T>(run: () => Promise<T>) => (served.guard ? refusing(path, run, accountProblems) : run())
  return {
    shown: (row) => shownRow(served, row),
    test: async (condition) => conditions(condition),
    find: (tx, id, _by, options) => foundRow(served, tx, id, options),
    insert: async (tx, given, by) => {
      refuseFiles(declaration, given)
      const values = validBody(served, await add(tx, given, by))
      if (declaration.access) values.createdBy = callerId(by.caller)
      const id = idTypes[declaration.ids].assign(newUuid)
      return guarded(async () => {
        const recorded = checkCreation(writers, values, withServiceScopes(by.caller))
        const row = await addRow(served, tx, values, { ...by, ...rights }, (final) =>
          rows.insert(tx, id === undefined ? final : { ...final, id }, by.now),
        )
        await auditChange(served, tx, { id: row.id, fields: recorded, values }, by)
        return row
      })
    },
    update: async (tx, id, changes, by) => {
      refuseFiles(declaration, changes)
      const locked = await lockedForChange(served, tx, id, (before) => merged(served, before, changes))
      if (locked === undefined) throw missing(id)
      const { before, values } = locked
      return guarded(async () => {
        const recorded = checkChange(writers, before, values, { caller: withServiceScopes(by.caller), id })
        const changed = await changeRow(served, tx, { id, values, precondition: {}, ...rights }, by)
        if (changed === undefined) throw missing(id)
        await auditChange(served, tx, { id, fields: recorded, values }, by)
        return changed
      })
    },
    remove: (tx, id, by) =>
      guarded(async () => {
        if (!(await deleteRow(served, tx, { id, precondition: {}, reach: undefined }, by))) throw missing(id)
      }),
  }
}

/** Returns a function that fills in `set` and `defaults` for fields that code omits. */
function completer(declaration: Declaration, options: CollectionOptions) {
  const { set, defaults } = declaration
  const { callerOf, created, createdIn } = creator(
    { ...declaration, set: {}, defaults: { ...defaults, ...set } },
    options,
  )
  return async (tx: Queryable, values: Values, { caller }: WriteBy): Promise<Values> => {
    const by: RuleCaller<never> | undefined = await callerOf?.(caller)
    return createdIn ? createdIn(tx, values, by) : created(values, by)
  }
}
