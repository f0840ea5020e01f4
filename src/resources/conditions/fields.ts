import { type TObject, type TSchema, Type } from 'typebox'
import type { IdType } from '../../storage/ids.ts'
import { type ColumnNames, columnOfField, keyColumnOfField } from '../../storage/rows/column-names.ts'
import type { RelationStep, TestedColumn } from '../../storage/rows/row-test.ts'
import { type ColumnKind, columnType } from '../column-types.ts'
import { idTypes } from '../id-types.ts'

/** A field that conditions can name. */
export interface ConditionField {
  kind: ColumnKind
  schema: TSchema
  on: TestedColumn
  /**
   * For exact comparisons: the case-folded companion column, if there is one. Its index finds candidate rows, whose
   * exact text is then compared.
   */
  index?: TestedColumn
}

export type ConditionFields = Readonly<Record<string, ConditionField>>

/** A relation to one row that conditions can name, with the fields of that row. */
export interface ConditionRelation {
  step: RelationStep
  fields: ConditionFields
  /** The related row's own relations. Only access rules taken from a referenced collection may follow them. */
  relations?: ConditionRelations
}

/** Returns the step that follows a reference from a table's rows to the rows that they refer to. */
export const relationStep = (of: {
  name: string
  field: string
  table: string
  target: { table: string; ids: IdType }
  columns?: ColumnNames | undefined
}): RelationStep => ({
  ...{ name: of.name, table: of.table, target: of.target.table, targetIds: of.target.ids },
  on: { field: of.field, column: columnOfField(of.field, of.columns) },
})

export type ConditionRelations = Readonly<Record<string, ConditionRelation>>

/** The parts of a declaration that determine its conditions. */
export interface ConditionDeclaration {
  body: TObject
  kinds: Readonly<Record<string, ColumnKind>>
  folded: readonly string[]
  blank: readonly string[]
  columns?: ColumnNames
  overlay?: ColumnNames | undefined
  ids: IdType
}

/**
 * How conditions compare text. `letters`: exactly, as in access rules. `folded`: ignoring case and Unicode form, as in
 * filters, for fields with a companion column.
 */
export type TextComparison = 'letters' | 'folded'

/** Returns true for kinds that the service stores as 64-bit integers. Existing tables may have narrower columns. */
export const isIntegral = (kind: ColumnKind): boolean => columnType(kind).sql === 'bigint'

const instant = Type.String({ format: 'date-time' })

/** Returns the fields that a resource's conditions can name. */
export function conditionFields(declaration: ConditionDeclaration, text: TextComparison): ConditionFields {
  const { body, kinds, folded, blank, columns, overlay, ids } = declaration
  const id = idTypes[ids]
  const declared = Object.entries(kinds).map(([field, kind]): [string, ConditionField] => {
    const stored: TestedColumn = {
      ...{ field, column: columnOfField(field, columns) },
      ...(columnType(kind).sql === 'key' && { sortsByBytes: true }),
      ...(kind === 'decimal' && { isWide: true }),
      ...(overlay && isIntegral(kind) && { isNarrow: true }),
      ...(kind === 'uuid' && { isUuid: true }),
    }
    const schema = body.properties[field] as TSchema
    if (!folded.includes(field)) return [field, { kind, schema, on: stored }]
    const blankKey = blank.includes(field) && { isBlank: true as const }
    const key: TestedColumn = {
      ...stored,
      keyColumn: keyColumnOfField(field, columns),
      ...blankKey,
      sortsByBytes: true,
    }
    return [field, text === 'folded' ? { kind, schema, on: key } : { kind, schema, on: stored, index: key }]
  })
  return Object.freeze({
    ...Object.fromEntries(declared),
    id: { kind: id.kind, schema: id.schema(), on: id.on },
    createdAt: { kind: 'instant', schema: instant, on: { field: 'createdAt', column: 'created_at' } },
    updatedAt: { kind: 'instant', schema: instant, on: { field: 'updatedAt', column: 'updated_at' } },
  })
}
