import type { Caller } from '../../http/policies/authenticate.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { Queryable } from '../../storage/database.ts'
import type { Engine } from '../../storage/engine.ts'
import type { RowId } from '../../storage/ids.ts'
import { columnOfField } from '../../storage/rows/column-names.ts'
import { countReferring, lockReferring } from '../../storage/rows/related-rows.ts'
import { passesAll, passesNone, type RowTest } from '../../storage/rows/row-test.ts'
import type { Rows } from '../../storage/rows/rows.ts'
import type { Reach } from '../access/rules.ts'
import type { TotalsUpdater } from '../computed/updater.ts'
import type { LockCheck } from '../constraints/lock-check.ts'
import type { Declaration } from '../declaration.ts'
import type { Announce, RowHooks } from '../writes/hooks.ts'
import type { Deletion, KeepRows, OnDelete } from './reference.ts'
import type { Child } from './relations.ts'

/** A collection, with the context for deleting its rows. */
export interface Removable {
  declaration: Declaration
  rows: Rows
  announce: Announce
  /** The collection's hooks; undefined if there are none. */
  hooks: RowHooks | undefined
  /** The references to this collection. */
  children: readonly Child[]
  /** Maintains the sums and counts that include its rows; undefined if there are none. */
  totals: TotalsUpdater | undefined
  /** Refuses to change locked rows; undefined if rows are never locked. */
  lock: LockCheck | undefined
  /** Stores deleted rows so that they can be restored; undefined if deletions are final. */
  keep: KeepRows | undefined
}

/** A deletion in progress. */
export interface DeletionContext {
  tx: Queryable
  engine: Engine
  /** Every collection of the service, in the order of declaration. */
  all: ReadonlyMap<Declaration, Removable>
  own: Removable
  /** The id of the row to delete. */
  id: RowId
  /**
   * The ids to delete in each collection, in the order in which the search from the deleted row finds the collections.
   */
  doomed: Map<Removable, RowId[]>
  /** The remaining number of rows that the deletion may delete or change. */
  left: number
}

/** Maximum number of other rows that one deletion may delete or change. */
export const maxDependents = 1_000

/**
 * Returns the references to a collection that have this `onDelete` rule, each with the rows that refer to `ids` and are
 * not already to be deleted.
 */
const referring = ({ all, doomed }: DeletionContext, parent: Removable, ids: readonly RowId[], rule: OnDelete) =>
  parent.children
    .filter(({ reference }) => reference.onDelete === rule)
    .map(({ declaration, reference: { field } }) => {
      const side = all.get(declaration) as Removable
      const [column, idType] = [columnOfField(field, declaration.columns), parent.declaration.ids]
      const except = () => ({ ids: doomed.get(side) ?? [], idType: declaration.ids })
      return { side, field, rows: () => ({ table: declaration.table, column, ids, idType, except: except() }) }
    })

/** Finds and locks the rows to delete together with the row. Throws RESOURCE_IN_USE if there are too many. */
export async function findDoomed(removal: DeletionContext): Promise<void> {
  const { tx, engine, own, id, doomed } = removal
  const found: [Removable, RowId[]][] = [[own, [id]]]
  for (const [parent, ids] of found) {
    for (const { side, rows } of referring(removal, parent, ids, 'cascade')) {
      const more = await lockReferring(tx, engine, rows(), removal.left + 1)
      spend(removal, more.length)
      doomed.set(side, [...(doomed.get(side) ?? []), ...more])
      if (more.length > 0) found.push([side, more])
    }
  }
}

interface Users {
  /** The number of referring rows, up to a limit, and how many of them the caller can read. */
  all: number
  readable: number
}

/**
 * Throws RESOURCE_IN_USE if a remaining row has a `restrict` reference to a row to delete. The error counts only the
 * rows that the caller can read; of other rows, it reveals only that they exist.
 */
export async function refuseInUse(removal: DeletionContext, { caller, reach }: Deletion): Promise<void> {
  const { tx, engine, own, id, doomed } = removal
  const found = new Map<string, Users>()
  for (const [parent, ids] of doomed) {
    for (const { side, rows } of referring(removal, parent, ids, 'restrict')) {
      const referring = { ...rows(), passing: readableRows(side.declaration, caller, reach) }
      const { all, passing } = await countReferring(tx, engine, referring, maxDependents + 1)
      const { name } = side.declaration
      const { all: others, readable } = found.get(name) ?? { all: 0, readable: 0 }
      if (all > 0) found.set(name, { all: all + others, readable: passing + readable })
    }
  }
  if (found.size === 0) return
  const named = [...found].map(([name, users]) => usersOf(name, users))
  const errors = named.map((users) => ({ field: 'id', message: `is referred to by ${users}` }))
  throw new Problem('RESOURCE_IN_USE', `The ${own.declaration.noun} ${id} is referred to by ${named.join(' and ')}`, {
    errors,
  })
}

/** Returns the test for a collection's rows that the caller can read. Without the read scope, no row passes. */
function readableRows(declaration: Declaration, { scopes }: Caller, reach: Reach = () => passesAll): RowTest {
  const { readScope } = declaration
  return readScope === null || scopes.has(readScope) ? reach(declaration) : passesNone
}

/** Returns text such as `3 invoices`. Omits the number if it is unknown or the caller can read none of the rows. */
function usersOf(name: string, { all, readable }: Users): string {
  if (readable > maxDependents) return `over ${maxDependents} ${name}`
  return readable === 0 || all > maxDependents ? name : `${readable} ${name}`
}

/**
 * Finds and locks the rows whose references to deleted rows will be cleared, and returns them with the fields to clear.
 * Throws RESOURCE_IN_USE if there are too many.
 */
export async function findReleased(removal: DeletionContext): Promise<Map<Removable, Map<RowId, string[]>>> {
  const { tx, engine, doomed } = removal
  const released = new Map<Removable, Map<RowId, string[]>>()
  for (const [parent, ids] of doomed) {
    for (const { side, field, rows } of referring(removal, parent, ids, 'setNull')) {
      const known = released.get(side) ?? new Map<RowId, string[]>()
      released.set(side, known)
      for (const row of await lockReferring(tx, engine, rows(), maxDependents + 1)) {
        if (!known.has(row)) spend(removal, 1)
        known.set(row, [...(known.get(row) ?? []), field])
      }
    }
  }
  return released
}

/** Throws RESOURCE_LOCKED if one of the rows to delete or to change is locked. */
export async function refuseLocked(
  { tx, own, id, doomed }: DeletionContext,
  released: ReadonlyMap<Removable, ReadonlyMap<RowId, unknown>>,
): Promise<void> {
  const names = new Set<string>()
  const check = async ({ lock, declaration }: Removable, ids: readonly RowId[]) => {
    if (lock && ids.length > 0 && (await lock.any(tx, ids))) names.add(declaration.name)
  }
  for (const [side, ids] of doomed) await check(side, ids)
  for (const [side, rows] of released) await check(side, [...rows.keys()])
  if (names.size === 0) return
  const what = `${own.declaration.noun} ${id} is referred to by locked ${[...names].join(' and ')}`
  throw new Problem('RESOURCE_LOCKED', `The ${what}, which would be deleted or changed with it`, {
    errors: [...names].map((name) => ({ field: 'id', message: `is referred to by locked ${name}` })),
  })
}

/** Counts rows towards the limit. Throws RESOURCE_IN_USE if it is exceeded. */
function spend(removal: DeletionContext, rows: number): void {
  removal.left -= rows
  if (removal.left >= 0) return
  const { own, id } = removal
  const what = `would delete or change more than ${maxDependents} other resources`
  throw new Problem('RESOURCE_IN_USE', `Deleting the ${own.declaration.noun} ${id} ${what}: delete some of them first`)
}
