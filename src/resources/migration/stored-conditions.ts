import type { ColumnNames } from '../../storage/rows/column-names.ts'
import type { RelationStep, TestedColumn } from '../../storage/rows/row-test.ts'
import type { DeclaredAccess } from '../access/rules.ts'
import type { ConditionField, ConditionFields, ConditionRelation, ConditionRelations } from '../conditions/fields.ts'
import type { DeclaredLock } from '../constraints/locked.ts'
import type { Declaration } from '../declaration.ts'

/** The names of columns that are not named after their fields, by table. */
export type NamesByTable = ReadonlyMap<string, ColumnNames>

/** Returns the declaration with the database's column names, including those in its conditions. */
export function withStoredColumns(declaration: Declaration, names: NamesByTable): Declaration {
  const { table, access, locked, computed } = declaration
  const columns = names.get(table)
  const whens = Object.entries(computed.whens).map(([name, when]) => [name, withStoredFields(when, columns)])
  return Object.freeze({
    ...declaration,
    ...(columns && { columns }),
    ...(access && { access: storedAccess(access, table, names) }),
    ...(locked && { locked: storedLock(locked, table, names) }),
    computed: { ...computed, whens: Object.fromEntries(whens) },
  })
}

function storedAccess(access: DeclaredAccess, table: string, names: NamesByTable): DeclaredAccess {
  const fields = storedFields(access.fields, names.get(table))
  const relations = storedRelations(access.relations, names)
  if (!('of' in access)) return Object.freeze({ ...access, fields, relations })
  const of = storedStep(access.of, names)
  return Object.freeze({ ...access, fields, relations, of, rules: storedAccess(access.rules, of.target, names) })
}

function storedLock(locked: DeclaredLock, table: string, names: NamesByTable): DeclaredLock {
  const stored = withStoredFields(locked, names.get(table))
  const relations = storedRelations(locked.relations, names)
  if (locked.of === undefined) return { ...stored, relations }
  const step = storedStep(locked.of.step, names)
  return { ...stored, relations, of: { step, locked: storedLock(locked.of.locked, step.target, names) } }
}

const withStoredFields = <T extends { fields: ConditionFields }>(
  condition: T,
  columns: ColumnNames | undefined,
): T => ({
  ...condition,
  fields: storedFields(condition.fields, columns),
})

function storedFields(fields: ConditionFields, columns: ColumnNames | undefined): ConditionFields {
  if (columns === undefined) return fields
  const stored = Object.entries(fields).map(([name, field]): [string, ConditionField] => [
    name,
    {
      ...{ ...field, on: storedColumn(field.on, columns) },
      ...(field.index && { index: storedColumn(field.index, columns) }),
    },
  ])
  return Object.freeze(Object.fromEntries(stored))
}

const storedRelations = (relations: ConditionRelations, names: NamesByTable): ConditionRelations =>
  Object.fromEntries(
    Object.entries(relations).map(([name, { step, fields, relations: next }]): [string, ConditionRelation] => [
      name,
      {
        step: storedStep(step, names),
        fields: storedFields(fields, names.get(step.target)),
        ...(next && { relations: storedRelations(next, names) }),
      },
    ]),
  )

const storedStep = (step: RelationStep, names: NamesByTable): RelationStep => ({
  ...step,
  on: storedColumn(step.on, names.get(step.table) ?? {}),
})

function storedColumn(on: TestedColumn, columns: ColumnNames): TestedColumn {
  const column = columns[on.field]
  if (column === undefined) return on
  return { ...on, column, ...(on.keyColumn !== undefined && { keyColumn: `${column}_key` }) }
}
