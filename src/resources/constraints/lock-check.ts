import { Problem } from '../../http/problems/problem.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import type { IdType, RowId } from '../../storage/ids.ts'
import { isAnyPassing, lockedRowPasses, lockReferred } from '../../storage/rows/locked-rows.ts'
import type { RowPrecondition } from '../../storage/rows/precondition.ts'
import { type RelationStep, type RowTest, relatedTest } from '../../storage/rows/row-test.ts'
import { conditionTest } from '../conditions/conditions.ts'
import { todayIn } from '../conditions/today.ts'
import type { DeclaredLock } from './locked.ts'

/** Refuses changes to locked rows, in the transaction of the change. */
export interface LockCheck {
  /**
   * Locks a row in the database until the end of the transaction. Throws RESOURCE_LOCKED if the row's stored state
   * allows no changes. Returns false if no row meets the precondition, so that 404, 403 and 412 take precedence.
   */
  one: (tx: Queryable, id: RowId, precondition: RowPrecondition, purpose: 'change' | 'remove') => Promise<boolean>
  /** Returns true if at least one of these rows is locked. */
  any: (tx: Queryable, ids: readonly RowId[]) => Promise<boolean>
  /**
   * Throws RESOURCE_LOCKED if a row with these values would be locked by a locked row that it refers to. Undefined if
   * references never lock the rows of this resource.
   */
  placed: ((tx: Queryable, values: Readonly<Record<string, unknown>>) => Promise<void>) | undefined
}

/** Returns the lock check of a resource; undefined if its rows are never locked. */
export function lockCheck(
  { locked, table, ids: idType, noun }: { locked?: DeclaredLock; table: string; ids: IdType; noun: string },
  { db, now, zone }: { db: Pick<Database, 'engine'>; now: () => number; zone?: string | undefined },
): LockCheck | undefined {
  if (locked === undefined) return undefined
  const { engine } = db
  const today = todayIn({ zone, now })
  const lockOthers = othersLocker(locked, engine, idType)
  return {
    one: async (tx, id, precondition, purpose) => {
      const lock = purpose === 'remove' ? engine.lockForRemoval : engine.lockRows
      await lockOthers(tx, [id], table)
      const isLocked = await lockedRowPasses(tx, { table, id, precondition, lock, test: lockTest(locked, today) })
      if (isLocked)
        throw new Problem('RESOURCE_LOCKED', `The ${noun} ${id} cannot be changed or deleted in its present state`)
      return isLocked !== undefined
    },
    any: async (tx, ids) => {
      await lockOthers(tx, ids, table)
      return isAnyPassing(tx, engine, { table, ids, idType, test: lockTest(locked, today) })
    },
    placed: placementCheck(locked, noun, engine, today),
  }
}

/**
 * Returns a function that takes database locks on the related rows that determine whether the given rows are locked.
 * Call it before locking the given rows, so that concurrent changes to either run one after the other.
 */
function othersLocker(locked: DeclaredLock, engine: Database['engine'], idType: IdType) {
  const levels: (readonly [of: RelationStep | undefined, targets: Map<string, RelationStep[]>])[] = []
  for (let at: DeclaredLock | undefined = locked; at; at = at.of?.locked) {
    const { of } = at
    const steps = [...(of ? [of.step] : []), ...stepsOf(at)].toSorted((a, b) => (a.target < b.target ? -1 : 1))
    levels.push([of?.step, Map.groupBy(steps, ({ target }) => target)])
  }
  return async (tx: Queryable, ids: readonly RowId[], rows: string): Promise<void> => {
    let [from, table, type] = [ids, rows, idType]
    for (const [of, targets] of levels) {
      let next: readonly RowId[] = []
      for (const [target, steps] of targets) {
        const columns = [...new Set(steps.map(({ on }) => on.column))]
        const found = await lockReferred(tx, engine, { table, columns, target, ids: from, idType: type })
        if (target === of?.target) next = found
      }
      if (of === undefined || next.length === 0) return
      ;[from, table, type] = [next, of.target, of.targetIds]
    }
  }
}

/** Returns the relations that a lock's condition follows. */
const stepsOf = ({ condition, fields, relations }: DeclaredLock): RelationStep[] =>
  condition === undefined ? [] : stepsIn(conditionTest(condition, { fields, relations, today: () => '2000-01-01' }))

function stepsIn(test: RowTest): RelationStep[] {
  if ('along' in test) return [test.along]
  if ('not' in test) return stepsIn(test.not)
  return 'on' in test ? [] : ('any' in test ? test.any : test.all).flatMap(stepsIn)
}

/** Returns the test for locked rows: they meet the condition or refer to a locked row. */
function lockTest({ condition, fields, relations, of }: DeclaredLock, today: () => string): RowTest {
  const own = condition === undefined ? [] : [conditionTest(condition, { fields, relations, today })]
  const tests = of ? [...own, relatedTest(of.step, lockTest(of.locked, today))] : own
  return tests.length === 1 ? (tests[0] as RowTest) : { any: tests }
}

function placementCheck({ of }: DeclaredLock, noun: string, engine: Database['engine'], today: () => string) {
  if (of === undefined) return undefined
  const { step, locked } = of
  const { lockRows: lock } = engine
  return async (tx: Queryable, values: Readonly<Record<string, unknown>>) => {
    const id = (values[step.on.field] ?? null) as RowId | null
    if (id === null) return
    const other = { table: step.target, id, precondition: {}, lock, test: lockTest(locked, today) }
    if (!(await lockedRowPasses(tx, other))) return
    throw new Problem('RESOURCE_LOCKED', `The ${step.name} ${id} of the ${noun} is in a state that allows no changes`)
  }
}
