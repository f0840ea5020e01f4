import { type TObject, type TSchema, Type } from 'typebox'
import type { RelationStep } from '../../storage/rows/row-test.ts'
import { type ColumnKind, kindOf } from '../column-types.ts'
import { checkCondition } from '../conditions/conditions.ts'
import { type ConditionField, type ConditionFields, conditionFields } from '../conditions/fields.ts'

/** The `locked` option of a declaration, with the fields that its condition can name. */
export interface DeclaredLock {
  /** Undefined if rows are locked with others alone. */
  condition: unknown
  fields: ConditionFields
  /** The rows with which rows are locked, because their access rules apply: those that they refer to. */
  of?: { step: RelationStep; locked: DeclaredLock }
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

/** The `locked` member of a declaration; `of` is the lock of the rows whose access rules apply. */
export function declaredLock(
  condition: unknown,
  fields: ConditionFields,
  of: DeclaredLock['of'],
): { locked?: DeclaredLock } {
  if (condition === undefined && of === undefined) return {}
  return { locked: { condition, fields, ...(of && { of }) } }
}
