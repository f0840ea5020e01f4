import { type TObject, type TSchema, Type } from 'typebox'
import type { RelationStep } from '../../storage/rows/row-test.ts'
import { type ColumnKind, kindOf } from '../column-types.ts'
import { checkCondition } from '../conditions/conditions.ts'
import { type ConditionField, type ConditionFields, conditionFields } from '../conditions/fields.ts'

/** The `locked` option, with the fields that its condition can name. */
export interface DeclaredLock {
  /** Undefined if rows are locked only together with the rows that they refer to. */
  condition: unknown
  fields: ConditionFields
  /** The rows that also lock the rows that refer to them, because their access rules apply to both. */
  of?: { step: RelationStep; locked: DeclaredLock }
}

/** The `createdBy` column of resources with access rules. */
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

/** Returns the `locked` member of a declaration; `of` is the lock of the rows whose access rules apply. */
export function declaredLock(
  condition: unknown,
  fields: ConditionFields,
  of: DeclaredLock['of'],
): { locked?: DeclaredLock } {
  if (condition === undefined && of === undefined) return {}
  return { locked: { condition, fields, ...(of && { of }) } }
}
