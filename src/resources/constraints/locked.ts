import { Type } from 'typebox'
import type { RelationStep } from '../../storage/rows/row-test.ts'
import type { ConditionField, ConditionFields, ConditionRelations } from '../conditions/fields.ts'

/** The validated `locked` option, with the fields and relations that its condition can name. */
export interface DeclaredLock {
  /** The declared condition; undefined if rows are locked only together with the rows that they refer to. */
  condition: unknown
  fields: ConditionFields
  relations: ConditionRelations
  /**
   * The lock inherited from the related rows that provide the access rules: if such a row is locked, the rows that
   * refer to it are locked too.
   */
  of?: { step: RelationStep; locked: DeclaredLock }
}

/** The `createdBy` column, which only resources with access rules have. */
export const createdByField: ConditionField = {
  ...{ kind: 'exact', schema: Type.String() },
  on: { field: 'createdBy', column: 'created_by', sortsByBytes: true },
}
