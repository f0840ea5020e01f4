import { sql } from 'kysely'
import type { Queryable } from '../database.ts'
import type { Engine } from '../engine.ts'
import { additionOf, comparedColumn, indexOf, keyAdditionOf, renameColumnStatements, sqlTypes } from './ddl.ts'
import type { ColumnKind, ResourceColumn, ResourceTable } from './resource-columns.ts'

/** A column as declared when its table was last reconciled. */
export type RecordedColumn = ResourceColumn

/** The existing columns and indexes of a table. */
export interface Found {
  /** SQL types by column. */
  types: ReadonlyMap<string, string>
  /** Columns that an index starts with. */
  indexed: ReadonlySet<string>
  /** Columns that are unique on their own. */
  unique: ReadonlySet<string>
  recorded: ReadonlyMap<string, RecordedColumn>
}

/**
 * The statements to run, the columns whose defaults and companions must then be filled, and the mismatches that only the
 * owner can resolve.
 */
export interface Changes {
  statements: string[]
  defaults: ResourceColumn[]
  fills: string[]
  refused: string[]
}

interface Subject {
  tx: Queryable
  engine: Engine
  table: ResourceTable
  found: Found
  isEmpty: boolean
}

/** Compares an existing table with its declaration. */
export async function changesOf(tx: Queryable, engine: Engine, table: ResourceTable, found: Found): Promise<Changes> {
  const isEmpty = (await countOf(tx, table.name, sql`true`)) === 0
  const subject = { tx, engine, table, found, isEmpty }
  const changes: Changes = { statements: [], defaults: [], fills: [], refused: [] }
  for (const column of table.columns) {
    if (!found.types.has(column.name)) add(subject, column, changes)
    else await adapt(subject, column, changes)
  }
  const declared = new Set(table.columns.map(({ name }) => name))
  for (const column of found.recorded.values()) {
    if (!declared.has(column.name) && found.types.has(column.name)) changes.refused.push(removed(table, column))
  }
  return changes
}

async function countOf(tx: Queryable, table: string, where: ReturnType<typeof sql>): Promise<number> {
  const query = sql<{ count: number }>`select count(*) as count from ${sql.ref(table)} where ${where}`
  return Number((await query.execute(tx)).rows[0]?.count)
}

/** A new field: safe if rows do not require a value, or every row receives its default. */
function add({ tx, engine, table, isEmpty }: Subject, column: ResourceColumn, changes: Changes): void {
  const { statements, refused } = changes
  const addition = additionOf(tx, engine, table.name, column)
  if (column.default !== undefined) changes.defaults.push(column)
  else if (column.required && !isEmpty) {
    const fill = `update "${table.name}" set "${column.name}" = <value>`
    const what = `is required, and the rows of ${table.name} have no such column`
    refused.push(
      mismatch(table, column.name, what, 'Declare it optional, or give every row a value:', [addition, fill]),
    )
    return
  }
  statements.push(addition)
  if (column.folded) statements.push(keyAdditionOf(tx, engine, table.name, column))
  statements.push(...indexOf(table.name, column))
}

/** A field whose column exists. */
async function adapt(subject: Subject, column: ResourceColumn, changes: Changes): Promise<void> {
  const { tx, engine, table, found, isEmpty } = subject
  const before = found.recorded.get(column.name)
  const refusal =
    wrongType(subject, column, before) ??
    (await missingValues(subject, column, before)) ??
    wrongUniqueness(subject, column, before)
  if (refusal !== undefined) {
    changes.refused.push(refusal)
    return
  }
  if (column.default !== undefined) changes.defaults.push(column)
  if (column.folded && !found.types.has(`${column.name}_key`)) {
    changes.statements.push(keyAdditionOf(tx, engine, table.name, column))
    if (!isEmpty) changes.fills.push(column.name)
  }
  const has = column.unique ? found.unique : found.indexed
  if (!has.has(comparedColumn(column))) changes.statements.push(...indexOf(table.name, column))
}

/** Text remains text whether it is compared case-folded or exactly. */
const family = (kind: ColumnKind) => (kind === 'exact' ? 'text' : kind)

function wrongType({ table, found }: Subject, column: ResourceColumn, before: RecordedColumn | undefined) {
  const type = found.types.get(column.name)
  const sameKind = before === undefined || family(before.kind) === family(column.kind)
  if (type === sqlTypes[column.kind] && sameKind) return
  const what = `is declared as ${family(column.kind)}, and ${table.name} has it as ${before?.kind ?? type}`
  const old = before ?? { name: column.name, folded: found.types.has(`${column.name}_key`) }
  return mismatch(
    table,
    column.name,
    what,
    'Put the old column aside, then start again:',
    renameColumnStatements(table.name, old),
  )
}

async function missingValues({ tx, table }: Subject, column: ResourceColumn, before: RecordedColumn | undefined) {
  if (!column.required || before?.required || column.default !== undefined) return
  const missing = await countOf(tx, table.name, sql`${sql.ref(column.name)} is null`)
  if (missing === 0) return
  const what = `is required, and ${missing} rows of ${table.name} have no value for it`
  const fill = `update "${table.name}" set "${column.name}" = <value> where "${column.name}" is null`
  return mismatch(table, column.name, what, 'Declare it optional, or give those rows a value:', [fill])
}

function wrongUniqueness({ table, found, isEmpty }: Subject, column: ResourceColumn, before?: RecordedColumn) {
  const name = comparedColumn(column)
  const drop = `drop index if exists "${table.name}_${name}"`
  if (column.unique && !found.unique.has(name)) {
    if (isEmpty && !found.indexed.has(name)) return
    const what = `is declared unique, and ${table.name} does not hold it unique`
    const steps = found.types.has(name) ? [drop, ...indexOf(table.name, column)] : []
    const advice = steps.length > 0 ? 'Make it so:' : 'Declare it among the filters first, then unique'
    return mismatch(table, column.name, what, advice, steps)
  }
  if (column.unique || !before?.unique || !found.unique.has(name)) return
  return mismatch(table, column.name, `is not declared unique, and ${table.name} holds it unique`, 'Drop that:', [drop])
}

function removed(table: ResourceTable, column: RecordedColumn): string {
  const what = `is not declared any more, and ${table.name} has its values`
  return mismatch(
    table,
    column.name,
    what,
    'Declare it again, or put it aside:',
    renameColumnStatements(table.name, column),
  )
}

const mismatch = ({ path }: ResourceTable, field: string, what: string, advice: string, steps: string[]): string =>
  [`${path}: the field ${camel(field)} ${what}. ${advice}`, ...steps.map((step) => `    ${step};`)].join('\n')

const camel = (name: string) => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
