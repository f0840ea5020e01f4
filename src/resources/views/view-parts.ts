import type { Settle, TotalsUpdater } from '../computed/updater.ts'
import type { LockCheck } from '../constraints/lock-check.ts'
import type { Writers } from '../constraints/writers.ts'
import type { Announce, Declaration } from '../declaration.ts'
import type { Guard } from '../writes/guard.ts'
import type { FieldNames, ViewOf } from './field-names.ts'

interface Parts {
  announce: Announce
  totals: TotalsUpdater | undefined
  lock: LockCheck | undefined
  guard?: Guard | undefined
}

/**
 * Returns the parts that a view leaves to its collection and calls with the collection's names: events, totals, locks,
 * guards.
 */
export function viewParts(
  { toOwn, toMembers, ownOf, collection }: ViewOf<Declaration>,
  { announce, totals, lock, guard }: Parts,
): Parts {
  // The collection itself deletes rows, so deleted rows already have its names.
  const announced: Announce = (tx, change, row, ...by) =>
    announce(tx, change, change === 'deleted' ? row : toOwn(row), ...by)
  const { record } = guard ?? {}
  const guarded: Guard | undefined = guard && {
    ...guard,
    change: (tx, change, run) => guard.change(tx, { ...change, values: change.values && toOwn(change.values) }, run),
    ...(record && {
      record: (tx, { fields, values, ...about }) =>
        record(tx, { ...about, fields: fields.map((field) => ownOf(field) ?? field), values: toOwn(values) }),
    }),
  }
  // A row may refer to rows of its own table, including itself.
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
  return { announce: announced, totals: totalled, lock: locking, guard: guarded }
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
