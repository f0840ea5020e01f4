import { Problem } from '../../http/problems/problem.ts'
import type { Settle, TotalsUpdater } from '../computed/updater.ts'
import type { LockCheck } from '../constraints/lock-check.ts'
import type { Writers } from '../constraints/writers.ts'
import type { Declaration } from '../declaration.ts'
import type { Guard } from '../writes/guard.ts'
import type { Announce, RowHooks } from '../writes/hooks.ts'
import type { FieldNames, ViewOf } from './field-names.ts'

interface Parts {
  announce: Announce
  totals: TotalsUpdater | undefined
  lock: LockCheck | undefined
  guard?: Guard | undefined
  hooks: RowHooks | undefined
}

/**
 * Returns the collection's events, totals, locks, guard and hooks for use by a view. They still receive the
 * collection's names.
 */
export function viewParts(view: ViewOf<Declaration>, { announce, totals, lock, guard, hooks }: Parts): Parts {
  const { toOwn, toMembers, ownOf, collection } = view
  // Deleted rows already have the collection's names, because the collection itself deletes them.
  const announced: Announce = (tx, change, row, ...about) =>
    announce(tx, change, change === 'deleted' ? row : toOwn(row), ...about)
  const { record } = guard ?? {}
  const guarded: Guard | undefined = guard && {
    ...guard,
    change: (tx, change, run) => guard.change(tx, { ...change, values: change.values && toOwn(change.values) }, run),
    ...(record && {
      record: (tx, { fields, values, ...about }) =>
        record(tx, { ...about, fields: fields.map((field) => ownOf(field) ?? field), values: toOwn(values) }),
    }),
  }
  // If the collection has totals over its own rows, its updated rows are converted to the view's names.
  const settling =
    (settle: Settle): Settle =>
    async (...by) =>
      (await settle(...by)).map((one) => (one.table === collection.table ? { ...one, row: toMembers(one.row) } : one))
  const totalled: TotalsUpdater | undefined = totals && {
    ...totals,
    created: async (tx, values) => settling(await totals.created(tx, toOwn(values))),
    changed: async (tx, id, values, precondition) => {
      const settle = await totals.changed(tx, id, toOwn(values), precondition)
      return settle && settling(settle)
    },
  }
  const { placed } = lock ?? {}
  const locking: LockCheck | undefined = lock && {
    ...lock,
    ...(placed && { placed: (tx, values) => placed(tx, toOwn(values)) }),
  }
  return {
    announce: announced,
    totals: totalled,
    lock: locking,
    guard: guarded,
    hooks: hooks && viewHooks(view, hooks),
  }
}

/** A problem thrown by the author's code. `of` is the path of the collection whose fields it names. */
interface ProblemOf extends Problem {
  of?: string | undefined
}

/** Runs the author's code for a view: if it refuses the request, the errors name the members of the view. */
export async function withMemberNames<T>(view: ViewOf<Declaration> | undefined, run: () => Promise<T>): Promise<T> {
  if (view === undefined) return run()
  try {
    return await run()
  } catch (error) {
    if (!(error instanceof Problem) || (error as ProblemOf).of !== view.collection.path || !error.errors) throw error
    const errors = error.errors.map(({ field, message }) => ({ field: view.memberOf(field), message }))
    throw new Problem(error.code, error.message, { errors, cause: error })
  }
}

/** Returns the hooks of a collection for the rows of a view. Only the hooks before a write return values. */
function viewHooks(view: ViewOf<Declaration>, hooks: RowHooks): RowHooks {
  const { toOwn, toMembers } = view
  const named = <T>(run: () => Promise<T>) => withMemberNames(view, run)
  const { creating, created, changing, changed } = hooks
  return {
    creating: creating && (async (tx, values, by) => toMembers(await named(() => creating(tx, toOwn(values), by)))),
    created: created && ((tx, row, by) => named(() => created(tx, toOwn(row), by))),
    changing:
      changing &&
      (async (tx, before, values, by) => toMembers(await named(() => changing(tx, toOwn(before), toOwn(values), by)))),
    changed: changed && ((tx, before, after, by) => named(() => changed(tx, toOwn(before), toOwn(after), by))),
  }
}

/** Determines who can write which members of a view. Members that the view does not have are allowed and ignored. */
export const viewWriters = (writers: Writers, { ownOf, memberOf }: FieldNames): Writers => ({
  ...writers,
  recorded: writers.recorded.map(memberOf),
  refusal: (caller, member, id) => {
    const field = ownOf(member)
    return field === undefined ? undefined : writers.refusal(caller, field, id)
  },
  kept: (caller, id) => writers.kept(caller, id).map(memberOf),
})
