import { type TObject, type TSchema, Type } from 'typebox'
import { Problem } from '../../http/problems/problem.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import { isAnyPassing, lockedRowPasses } from '../../storage/rows/locked-rows.ts'
import type { RowPrecondition } from '../../storage/rows/precondition.ts'
import type { RowTest } from '../../storage/rows/row-test.ts'
import { type ColumnKind, kindOf } from '../column-types.ts'
import { checkCondition, conditionTest } from '../conditions/conditions.ts'
import { type ConditionField, type ConditionFields, conditionFields } from '../conditions/fields.ts'
import { todayIn } from '../conditions/today.ts'

/** The `locked` option of a declaration, with the fields that its condition can name. */
export interface DeclaredLock {
  condition: unknown
  fields: ConditionFields
}

/** The column of who created a row, in resources with access rules. */
export const createdByField: ConditionField = {
  ...{ kind: 'exact', schema: Type.String() },
  on: { field: 'createdBy', column: 'created_by', sortsByBytes: true },
}

/** Returns the errors in the `locked` option. */
export function lockErrors({ body, locked, access }: { body: TObject; locked?: unknown; access?: unknown }): string[] {
  if (locked === undefined) return []
  const kinds = Object.entries(body.properties as Record<string, TSchema>).flatMap(([field, schema]) => {
    const kind = kindOf(schema)
    return kind ? [[field, kind] as const] : []
  })
  const declared = { body, kinds: Object.fromEntries<ColumnKind>(kinds), folded: [], blank: [] }
  const fields = { ...conditionFields(declared, 'letters'), ...(access !== undefined && { createdBy: createdByField }) }
  return checkCondition(locked, fields).map((error) => `locked: ${error}`)
}

/** The `locked` member of a declaration. */
export const declaredLock = (condition: unknown, fields: ConditionFields): { locked?: DeclaredLock } =>
  condition === undefined ? {} : { locked: { condition, fields } }

/** Refuses changes of locked rows, in the transaction of the change. */
export interface LockCheck {
  /**
   * Locks a row until the end of the transaction. Throws RESOURCE_LOCKED if its stored state refuses changes; false if there
   * is no row that meets the precondition, so that 404, 403 and 412 come first.
   */
  one: (tx: Queryable, id: number, precondition: RowPrecondition, purpose: 'change' | 'remove') => Promise<boolean>
  /** True if one of these rows is locked. */
  any: (tx: Queryable, ids: readonly number[]) => Promise<boolean>
}

/** The check of a resource; undefined if its rows are never locked. */
export function lockCheck(
  { locked, table, noun }: { locked?: DeclaredLock; table: string; noun: string },
  { db, now, zone }: { db: Pick<Database, 'engine'>; now: () => number; zone?: string | undefined },
): LockCheck | undefined {
  if (locked === undefined) return undefined
  const today = todayIn({ zone, now })
  const test = (): RowTest => conditionTest(locked.condition, { fields: locked.fields, today })
  const { engine } = db
  return {
    one: async (tx, id, precondition, purpose) => {
      const lock = purpose === 'remove' ? engine.lockForRemoval : engine.lockRows
      const isLocked = await lockedRowPasses(tx, { table, id, precondition, lock, test: test() })
      if (isLocked)
        throw new Problem('RESOURCE_LOCKED', `The ${noun} ${id} cannot be changed or deleted in its present state`)
      return isLocked !== undefined
    },
    any: (tx, ids) => isAnyPassing(tx, engine, { table, ids, test: test() }),
  }
}
