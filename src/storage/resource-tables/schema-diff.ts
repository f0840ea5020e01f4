import { sql } from 'kysely'
import type { Queryable } from '../database.ts'
import type { Engine } from '../engine.ts'
import {
  addColumnStatement,
  addKeyColumnStatement,
  comparedColumn,
  comparedIndexStatements,
  dropIndexStatement,
  exactIndexStatements,
  indexStatements,
  renameColumnStatements,
  typeNameOf,
} from './ddl.ts'
import { countRows, mismatch, rowCount } from './mismatch.ts'
import { type ExistingTable, indexedAs } from './read-table.ts'
import type { RecordedColumn } from './record.ts'
import { fieldOf, type ResourceColumn, type ResourceTable } from './resource-columns.ts'

/** The changes that make a table match its declaration. */
export interface TableChanges {
  statements: string[]
  /** Columns whose default must be written to existing rows that have no value, after the statements have run. */
  defaults: ResourceColumn[]
  /** New columns that contain a constant in every existing row; these rows keep their revisions. */
  constants: ResourceColumn[]
  /** Names of columns with a new companion column that must be filled afterwards. */
  fills: string[]
  /** Error messages for differences that only the operator can resolve. */
  mismatches: string[]
}

interface Comparison {
  tx: Queryable
  engine: Engine
  table: ResourceTable
  existing: ExistingTable
  isEmpty: boolean
  settled: SettledColumns
}

/** How data steps affect the comparison. */
export interface SettledColumns {
  /** Returns true for a column whose values have been filled or converted. */
  prepared: (column: ResourceColumn) => boolean
  /** Names of columns whose values have yet to be filled or converted; these columns are not compared. */
  pending: readonly string[]
}

/** Compares an existing table with its declaration. */
export async function diffTable(
  tx: Queryable,
  engine: Engine,
  table: ResourceTable,
  existing: ExistingTable,
  settled: SettledColumns,
): Promise<TableChanges> {
  const isEmpty = (await countRows(tx, table.name, sql`true`)) === 0
  const comparison = { tx, engine, table, existing, isEmpty, settled }
  const changes: TableChanges = { statements: [], constants: [], defaults: [], fills: [], mismatches: [] }
  for (const column of table.columns) {
    if (settled.pending.includes(column.name)) continue
    if (!existing.types.has(column.name)) addColumn(comparison, column, changes)
    else await compareColumn(comparison, column, changes)
  }
  const declared = new Set(table.columns.map(({ name }) => name))
  for (const column of existing.recorded.values()) {
    if (!declared.has(column.name) && existing.types.has(column.name))
      changes.mismatches.push(undeclaredColumn(comparison, column))
  }
  return changes
}

/** Returns the constant for existing rows in a new column; undefined if none is declared. */
export function constantFor({ changes }: ResourceTable, column: ResourceColumn): string | number | undefined {
  const fill = changes?.fill[fieldOf(column)]
  return fill !== undefined && 'constant' in fill ? fill.constant : undefined
}

/**
 * Adds the column of a new field if the field is optional or has a value for existing rows, or if the table is empty.
 * Otherwise, adds a mismatch.
 */
function addColumn({ tx, engine, table, isEmpty }: Comparison, column: ResourceColumn, changes: TableChanges): void {
  const { statements, mismatches } = changes
  const constant = constantFor(table, column)
  const addition = addColumnStatement(tx, engine, table.name, column, constant)
  if (constant !== undefined) changes.constants.push(column)
  else if (column.default !== undefined) changes.defaults.push(column)
  else if (column.required && !isEmpty) {
    const fill = `update "${table.name}" set "${column.name}" = <value>`
    const what = `is required, but ${table.name} has rows and no such column`
    mismatches.push(
      mismatch(table, column, what, 'Declare it optional, or add the column with a value in every row:', [
        addition,
        fill,
      ]),
    )
    return
  }
  statements.push(addition)
  if (column.folded) {
    const text = constant === undefined ? undefined : String(constant)
    statements.push(addKeyColumnStatement(tx, engine, table.name, column, text))
  }
  statements.push(...indexStatements(table.name, column))
}

/** Compares an existing column with its field. */
async function compareColumn(comparison: Comparison, column: ResourceColumn, changes: TableChanges): Promise<void> {
  const { tx, engine, table, existing, isEmpty } = comparison
  const before = existing.recorded.get(column.name)
  const problem =
    wrongType(comparison, column, before) ??
    (await missingValues(comparison, column, before)) ??
    wrongUniqueness(comparison, column, before)
  if (problem !== undefined) {
    changes.mismatches.push(problem)
    return
  }
  if (column.default !== undefined) changes.defaults.push(column)
  if (column.folded && !existing.types.has(`${column.name}_key`)) {
    changes.statements.push(addKeyColumnStatement(tx, engine, table.name, column))
    if (!isEmpty) changes.fills.push(column.name)
  }
  const indexes = column.unique ? existing.unique : existing.indexed
  if (!indexes.has(comparedColumn(column))) changes.statements.push(...comparedIndexStatements(table.name, column))
  if (!existing.indexed.has(column.name)) changes.statements.push(...exactIndexStatements(table.name, column))
}

/** Maps kinds that are stored in the same way to the same kind, so that they can be compared. */
export const comparableKind = (kind: string) => (kind === 'exact' ? 'text' : kind === 'reference' ? 'integer' : kind)

function wrongType(
  { engine, table, existing }: Comparison,
  column: ResourceColumn,
  before: RecordedColumn | undefined,
) {
  const type = existing.types.get(column.name)
  // The type of an adopted column is checked by `adopt`.
  if (column.adopted && comparableKind(before?.kind ?? column.kind) === comparableKind(column.kind)) return
  const sameKind = before === undefined || comparableKind(before.kind) === comparableKind(column.kind)
  if (type === typeNameOf(column, engine) && sameKind) return
  const what = `is declared as ${comparableKind(column.kind)}, but stored as ${before?.kind ?? type} in ${table.name}`
  const old = before ?? { name: column.name, folded: existing.types.has(`${column.name}_key`) }
  const steps = renameColumnStatements(table.name, old, indexedAs(existing, old))
  return mismatch(table, column, what, 'Rename the old column, then start again:', steps)
}

async function missingValues(
  { tx, table, settled }: Comparison,
  column: ResourceColumn,
  before: RecordedColumn | undefined,
) {
  if (!column.required || before?.required || column.default !== undefined || settled.prepared(column)) return
  const missing = await countRows(tx, table.name, sql`${sql.ref(column.name)} is null`)
  if (missing === 0) return
  const what = `is required, but has no value in ${rowCount(missing)} of ${table.name}`
  const fill = `update "${table.name}" set "${column.name}" = <value> where "${column.name}" is null`
  return mismatch(table, column, what, 'Declare it optional, or give those rows a value:', [fill])
}

function wrongUniqueness({ table, existing, isEmpty }: Comparison, column: ResourceColumn, before?: RecordedColumn) {
  const name = comparedColumn(column)
  const drop = dropIndexStatement(`${table.name}_${name}`)
  if (column.unique && !existing.unique.has(name)) {
    if (isEmpty && !existing.indexed.has(name)) return
    const what = `is declared unique, but has no unique index in ${table.name}`
    const steps = existing.types.has(name) ? [drop, ...indexStatements(table.name, column)] : []
    const advice = steps.length > 0 ? 'Create one:' : 'Declare it as a filter first, then as unique.'
    return mismatch(table, column, what, advice, steps)
  }
  if (column.unique || !before?.unique || !existing.unique.has(name)) return
  return mismatch(table, column, `is not declared unique, but has a unique index in ${table.name}`, 'Drop it:', [drop])
}

function undeclaredColumn({ table, existing }: Comparison, column: RecordedColumn): string {
  const what = `is no longer declared, but ${table.name} still has its column`
  if (column.adopted) {
    const release = `Declare it again, or stop using the column ${column.name} with plinth migrate --allow-data-loss, which keeps it and its values`
    return mismatch(table, column, what, release, [])
  }
  const steps = renameColumnStatements(table.name, column, indexedAs(existing, column))
  return mismatch(
    table,
    column,
    what,
    'Declare it again, rename the column, or remove it with its data with plinth migrate --allow-data-loss:',
    steps,
  )
}
