import { keepFiles, releaseFiles } from '../../storage/stored-files.ts'
import { rowFacts } from '../access/row-facts.ts'
import { eventPublisher } from '../change-events.ts'
import { totalsUpdater } from '../computed/maintain-totals.ts'
import { lockCheck } from '../constraints/lock-check.ts'
import type { CollectionOptions, Declaration } from '../declaration.ts'
import { keeper } from '../deleted/kept-rows.ts'
import { resourceRows } from '../resource-rows.ts'
import type { Removable } from './dependents.ts'
import type { KeepRows, Remove } from './reference.ts'
import { childrenOf } from './relations.ts'
import { remover } from './removal.ts'

/**
 * Returns the context for deleting a resource's rows, and the function that deletes them. That function also handles
 * the rows in `all` collections that refer to a deleted row.
 */
export function removable(
  declaration: Declaration,
  options: Pick<CollectionOptions, 'db' | 'queue' | 'random' | 'now' | 'zone' | 'code'>,
  all: readonly Declaration[],
): Removable & { remove: Remove } {
  const of = (one: Declaration): Removable => {
    const rows = resourceRows(options.db, one)
    return {
      ...{ declaration: one, rows, keep: withFiles(one, keeper(one, rows)) },
      announce: eventPublisher(options, one, rowFacts(one, all)),
      children: childrenOf(one, all),
      hooks: options.code?.hooksOf(one.path),
      lock: lockCheck(one, options),
      totals: totalsUpdater(one, all, options),
    }
  }
  const own = of(declaration)
  const removerAmong = (needed: readonly Declaration[]) =>
    remover(options.db, own, new Map(needed.map((one) => [one, one === declaration ? own : of(one)])))
  if (own.children.length === 0) return { ...own, remove: removerAmong([declaration]) }
  let remove: Remove | undefined
  return {
    ...own,
    // Created on the first deletion: creating it for each version would slow down startup with many collections.
    remove: (...removal) => {
      remove ??= removerAmong(all)
      return remove(...removal)
    },
  }
}

/** Extends `keep` to files: a deleted row's files are retained if the row is, otherwise released. */
function withFiles({ table, files }: Declaration, keep: KeepRows | undefined): KeepRows | undefined {
  if (files.length === 0) return keep
  return async (tx, rows, deletion) => {
    await keep?.(tx, rows, deletion)
    const [ids, nowMs] = [rows.map(({ id }) => id), Date.parse(deletion.now)]
    if (keep) await keepFiles(tx, table, ids, nowMs)
    else await releaseFiles(tx, { table, ids, state: 'stored' }, nowMs)
  }
}

/**
 * Returns true if deleting a row may affect locked rows: the row itself, or rows that would also be deleted or changed.
 */
export function mayMeetLocks(declaration: Declaration, all: readonly Declaration[]): boolean {
  const seen = new Set([declaration])
  for (const one of seen) {
    if (one.locked !== undefined) return true
    for (const { declaration: child, reference } of childrenOf(one, all)) {
      if (reference.onDelete === 'cascade') seen.add(child)
      if (reference.onDelete === 'setNull' && child.locked !== undefined) return true
    }
  }
  return false
}
