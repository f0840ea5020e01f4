import { Problem } from '../../http/problems/problem.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import { isAnyPassing, lockedRowPasses, lockReferred } from '../../storage/rows/locked-rows.ts'
import type { RowPrecondition } from '../../storage/rows/precondition.ts'
import { type RowTest, relatedTest } from '../../storage/rows/row-test.ts'
import { conditionTest } from '../conditions/conditions.ts'
import { todayIn } from '../conditions/today.ts'
import type { DeclaredLock } from './locked.ts'

/** Refuses changes to locked rows, in the transaction of the change. */
export interface LockCheck {
  /**
   * Locks a row in the database until the end of the transaction. Throws RESOURCE_LOCKED if the row's stored state
   * refuses changes. Returns false if no row meets the precondition, so that 404, 403 and 412 take precedence.
   */
  one: (tx: Queryable, id: number, precondition: RowPrecondition, purpose: 'change' | 'remove') => Promise<boolean>
  /** Returns true if at least one of these rows is locked. */
  any: (tx: Queryable, ids: readonly number[]) => Promise<boolean>
  /**
   * Throws RESOURCE_LOCKED if a row with these values would belong to a locked row. Undefined if other rows cannot lock
   * the rows of this resource.
   */
  placed: ((tx: Queryable, values: Readonly<Record<string, unknown>>) => Promise<void>) | undefined
}

/** Returns the lock check of a resource; undefined if its rows are never locked. */
export function lockCheck(
  { locked, table, noun }: { locked?: DeclaredLock; table: string; noun: string },
  { db, now, zone }: { db: Pick<Database, 'engine'>; now: () => number; zone?: string | undefined },
): LockCheck | undefined {
  if (locked === undefined) return undefined
  const { engine } = db
  const today = todayIn({ zone, now })
  /** Locks the rows that these rows belong to, before the rows themselves. */
  const lockOthers = async (tx: Queryable, { of }: DeclaredLock, ids: readonly number[], rows: string) => {
    for (let [next, from, at] = [of, rows, ids]; next && at.length > 0; ) {
      at = await lockReferred(tx, engine, {
        table: from,
        column: next.step.on.column,
        target: next.step.target,
        ids: at,
      })
      ;[from, next] = [next.step.target, next.locked.of]
    }
  }
  return {
    one: async (tx, id, precondition, purpose) => {
      const lock = purpose === 'remove' ? engine.lockForRemoval : engine.lockRows
      await lockOthers(tx, locked, [id], table)
      const isLocked = await lockedRowPasses(tx, { table, id, precondition, lock, test: lockTest(locked, today) })
      if (isLocked)
        throw new Problem('RESOURCE_LOCKED', `The ${noun} ${id} cannot be changed or deleted in its present state`)
      return isLocked !== undefined
    },
    any: async (tx, ids) => {
      await lockOthers(tx, locked, ids, table)
      return isAnyPassing(tx, engine, { table, ids, test: lockTest(locked, today) })
    },
    placed: placementCheck(locked, noun, engine, today),
  }
}

/** Returns the test for locked rows: they meet the condition or refer to a locked row. */
function lockTest({ condition, fields, of }: DeclaredLock, today: () => string): RowTest {
  const own = condition === undefined ? [] : [conditionTest(condition, { fields, today })]
  const tests = of ? [...own, relatedTest(of.step, lockTest(of.locked, today))] : own
  return tests.length === 1 ? (tests[0] as RowTest) : { any: tests }
}

function placementCheck({ of }: DeclaredLock, noun: string, engine: Database['engine'], today: () => string) {
  if (of === undefined) return undefined
  const { step, locked } = of
  const { lockRows: lock } = engine
  return async (tx: Queryable, values: Readonly<Record<string, unknown>>) => {
    const id = (values[step.on.field] ?? null) as number | null
    if (id === null) return
    const other = { table: step.target, id, precondition: {}, lock, test: lockTest(locked, today) }
    if (!(await lockedRowPasses(tx, other))) return
    throw new Problem('RESOURCE_LOCKED', `The ${step.name} ${id} of the ${noun} is in a state that allows no changes`)
  }
}
