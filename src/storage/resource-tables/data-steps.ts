import { type RawBuilder, sql } from 'kysely'
import type { Queryable } from '../database.ts'
import type { Engine } from '../engine.ts'
import { idBeforeAll, type RowId } from '../ids.ts'
import {
  addColumnStatement,
  addKeyColumnStatement,
  dropIndexStatement,
  indexStatements,
  renameColumnStatements,
  uniqueTupleStatement,
} from './ddl.ts'
import { countRows, rowCount } from './mismatch.ts'
import { type ExistingTable, indexedAs } from './read-table.ts'
import type { RecordedColumn } from './record.ts'
import { fieldOf, idsOf, type ResourceColumn, type ResourceTable } from './resource-columns.ts'
import { comparableKind } from './schema-diff.ts'

/** A change that computes new values for a column, in batches of rows. */
export interface DataStep {
  kind: 'fill' | 'convert'
  table: ResourceTable
  column: ResourceColumn
  existing: ExistingTable
  /** The recorded column before the change; undefined if the step adds the column. */
  before: RecordedColumn | undefined
}

/** A step whose rows have all been written. */
export interface DoneStep {
  step: DataStep
  /** The number of rows written. */
  rows: number
  /** The statements that prepared the step; empty if an earlier, interrupted run has already executed them. */
  statements: readonly string[]
}

/** Returns the steps that an existing table needs. Omits a fill that would write no rows. */
export async function dataStepsOf(tx: Queryable, table: ResourceTable, existing: ExistingTable): Promise<DataStep[]> {
  const { changes } = table
  if (changes === undefined || existing.types.size === 0) return []
  const steps: DataStep[] = []
  for (const column of table.columns) {
    const field = fieldOf(column)
    const before = existing.recorded.get(column.name)
    const isNew = !existing.types.has(column.name) || (existing.recorded.size > 0 && before === undefined)
    const fill = changes.fill[field]
    const step = { table, column, existing, before }
    if (changes.convert[field] !== undefined && before && comparableKind(before.kind) !== comparableKind(column.kind)) {
      steps.push({ ...step, kind: 'convert' })
    } else if (fill !== undefined && (isNew ? 'compute' in fill : column.required && before?.required === false)) {
      if ((await rowsToFill(tx, step)) > 0) steps.push({ ...step, kind: 'fill' })
    }
  }
  return steps
}

const rowsToFill = (tx: Queryable, { table, column, before }: Omit<DataStep, 'kind'>) =>
  countRows(tx, table.name, before ? sql`${sql.ref(column.name)} is null` : sql`true`)

/**
 * Returns the condition for the rows that a step reads after an id: rows with a value to convert, or without the value
 * to fill.
 */
export function rowsOfStep(
  { kind, table, column, before }: DataStep,
  after: RowId = idBeforeAll[idsOf(table)],
): RawBuilder<boolean> {
  const value = sql.ref(column.name)
  if (before === undefined) return sql<boolean>`id > ${after}`
  return sql<boolean>`id > ${after} and ${value} is ${sql.raw(kind === 'convert' ? 'not null' : 'null')}`
}

/** Returns the column that a step writes. Converted values stay in a separate column until all rows are converted. */
export const stepColumn = ({ kind, column }: DataStep): ResourceColumn =>
  kind === 'convert' ? { ...column, name: `${column.name}__new` } : column

/**
 * Returns the statements that prepare a step; they first remove what an interrupted step of another definition left
 * behind.
 */
export function prepareStatements(tx: Queryable, engine: Engine, step: DataStep): string[] {
  const { kind, table, existing, before } = step
  if (kind === 'fill' && before !== undefined) return []
  const target = stepColumn(step)
  const leftovers = [`${target.name}_key`, target.name].filter((name) => existing.types.has(name))
  return [
    ...leftovers.map((name) => `alter table "${table.name}" drop column "${name}"`),
    addColumnStatement(tx, engine, table.name, target),
    ...(target.folded ? [addKeyColumnStatement(tx, engine, table.name, target)] : []),
  ]
}

/** Returns the statements that put the converted values in place of the old ones, which stay in a column `…_old`. */
export function swapStatements(step: DataStep): string[] {
  const { kind, table, column, existing, before } = step
  if (kind === 'fill' || before === undefined) return []
  const { name } = column
  const place = `alter table "${table.name}" rename column`
  const tuples = (table.tuples ?? []).filter(({ fields }) => fields.includes(fieldOf(column)))
  return [
    ...renameColumnStatements(table.name, before, indexedAs(existing, before)),
    `${place} "${name}__new" to "${name}"`,
    ...(column.folded ? [`${place} "${name}__new_key" to "${name}_key"`] : []),
    ...indexStatements(table.name, column),
    ...tuples.flatMap((tuple) => [dropIndexStatement(tuple.index), uniqueTupleStatement(table.name, tuple)]),
  ]
}

/** Returns text such as `convert price of resource_items from number to decimal with scale 2`. */
export function describeStep({ kind, table, column, before }: DataStep): string {
  const what = `${kind} ${column.name} of ${table.name}`
  return kind === 'fill' ? what : `${what} from ${before?.kind} to ${column.kind}`
}

/** Returns the error message if the service starts before `plinth migrate` has executed the step. */
export async function pendingStep(tx: Queryable, step: DataStep): Promise<string> {
  const { kind, table, column, before } = step
  const rows = rowCount(await countRows(tx, table.name, rowsOfStep(step)))
  const what = kind === 'fill' ? `has to be filled in ${rows}` : `has to be converted from ${before?.kind} in ${rows}`
  const cure = 'Stop all nodes that use this database, and run plinth migrate'
  return `${table.path}: the field ${fieldOf(column)} ${what} of ${table.name}. ${cure}`
}

/** Returns an error message if a step cannot be prepared; otherwise undefined. */
export function obstacleOf({ kind, table, column, existing, before }: DataStep): string | undefined {
  if (kind === 'convert' && before?.adopted) {
    const why = `the service did not create the column ${column.name} of ${table.name}`
    return `${table.path}: the field ${fieldOf(column)} cannot be converted, because ${why}. Declare a new field, and fill it`
  }
  if (kind === 'fill' || !existing.types.has(`${column.name}_old`)) return undefined
  const old = `the column ${column.name}_old, which an earlier change left in ${table.name}`
  const drop = `    alter table "${table.name}" drop column "${column.name}_old";`
  return `${table.path}: the field ${fieldOf(column)} cannot be converted: its old values would be put into ${old}. Drop it:\n${drop}`
}
