import type { TObject, TSchema } from 'typebox'
import type { IdType } from '../../storage/ids.ts'
import { type ColumnKind, kindOf } from '../column-types.ts'
import { checkCondition } from '../conditions/conditions.ts'
import { conditionFields } from '../conditions/fields.ts'
import { conditionRelations, type Following } from '../relations/condition-relations.ts'
import { createdByField, type DeclaredLock } from './locked.ts'

interface Lockable {
  body: TObject
  ids?: IdType | undefined
  locked?: unknown
  access?: unknown
}

/** Returns the errors in the `locked` option. */
export function lockErrors({ body, ids = 'integer', locked, access }: Lockable): string[] {
  if (locked === undefined) return []
  const kinds = Object.entries(body.properties as Record<string, TSchema>).flatMap(([field, schema]) => {
    const kind = kindOf(schema)
    return kind ? [[field, kind] as const] : []
  })
  const declared = { body, ids, kinds: Object.fromEntries<ColumnKind>(kinds), folded: [], blank: [] }
  const fields = { ...conditionFields(declared, 'letters'), ...(access !== undefined && { createdBy: createdByField }) }
  const relations = conditionRelations({ declaration: { body, ids, table: '' }, fields })
  return checkCondition(locked, fields, { relations }).map((error) => `locked: ${error}`)
}

/**
 * Returns the `locked` member of a declaration. `of` is the lock inherited from the rows that provide the access rules.
 */
export function declaredLock(
  condition: unknown,
  { declaration, fields }: Following,
  of: DeclaredLock['of'],
): { locked?: DeclaredLock } {
  if (condition === undefined && of === undefined) return {}
  const relations = conditionRelations({ declaration, fields })
  return { locked: { condition, fields, relations, ...(of && { of }) } }
}
