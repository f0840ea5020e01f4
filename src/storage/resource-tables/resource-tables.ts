import { sql } from 'kysely'
import type { Queryable } from '../database.ts'
import type { Engine } from '../engine.ts'
import { caseFold } from '../rows/page-query.ts'
import { nextRevision } from '../rows/revision.ts'
import { adopt } from './adoption.ts'
import { fillKeys, fillTotals } from './computed-columns.ts'
import { dataStepsOf, pendingStep } from './data-steps.ts'
import { createTableStatements } from './ddl.ts'
import { abandonChanges, type DefinitionLabel, recordChanges } from './history.ts'
import { countRows, rowCount, TableMismatch } from './mismatch.ts'
import { type ExistingTable, readTable } from './read-table.ts'
import { readRecord, recordOf, saveRecord } from './record.ts'
import { diffReferences } from './reference-diff.ts'
import { fieldOf, type ResourceColumn, type ResourceTable } from './resource-columns.ts'
import { diffTable, type TableChanges } from './schema-diff.ts'
import { movedColumns, sharedColumns, withStoredNames } from './stored-names.ts'
import { diffTuples } from './unique-tuples.ts'

export interface ReconcileOptions {
  /** The current time, which becomes the modification time of changed rows. */
  now: string
  /** Identifies the definition whose declarations cause the changes. */
  label: DefinitionLabel
  /** Columns whose values have been filled or converted: `table.column`. */
  prepared?: ReadonlySet<string>
}

/**
 * Changes the tables to match their declarations and returns the executed statements. Makes only safe changes: for
 * example, adds tables, indexes, and columns that are optional or have a value for existing rows. Throws
 * `TableMismatch` for all other differences, and never deletes rows. Rows that receive a default get a new revision.
 */
export async function reconcile(
  tx: Queryable,
  engine: Engine,
  tables: readonly ResourceTable[],
  { now, label, prepared = new Set() }: ReconcileOptions,
): Promise<string[]> {
  const executed: string[] = []
  const mismatches: string[] = []
  for (const declared of tables) {
    const record = await readRecord(tx, declared.name)
    const known = withStoredNames(declared, record?.columns ?? [])
    const adoption = await adopt(tx, engine, declared, record, now)
    const conflicts = [...movedColumns(known), ...adoption.mismatches]
    mismatches.push(...conflicts)
    if (conflicts.length > 0) continue
    if (record?.text === JSON.stringify(recordOf(known))) {
      executed.push(...(await fillBlanks(tx, known)))
      continue
    }
    const existing = await readTable(tx, engine, declared.name, adoption.recorded)
    const table = withStoredNames(declared, adoption.recorded, existing.types)
    const filled = new Set([...prepared, ...adoption.filled.map((column) => `${table.name}.${column}`)])
    const changes = await changesOf(tx, engine, table, existing, filled)
    mismatches.push(...changes.mismatches)
    // After a mismatch, everything is rolled back, so only check the remaining tables, to report all mismatches at
    // once.
    if (mismatches.length > 0) continue
    const applied = await apply(tx, engine, table, changes, now)
    const done = [...adoption.executed, ...renames(table, existing), ...applied, ...(await fillBlanks(tx, table))]
    await recordChanges(tx, table.name, done, label, now)
    executed.push(...done)
    await saveRecord(tx, table.name, JSON.stringify(recordOf(table)))
  }
  const filled = mismatches.length > 0 ? { executed: [], mismatches: [] } : await fillTotals(tx, tables, now)
  mismatches.push(...filled.mismatches)
  if (mismatches.length > 0) throw new TableMismatch(mismatches.join('\n'))
  await abandonChanges(tx, tables)
  return [...executed, ...filled.executed]
}

/** Returns a comment for each field that uses the column of its earlier name. */
const renames = ({ columns }: ResourceTable, { recorded }: ExistingTable): string[] =>
  columns.flatMap((column) => {
    const before = recorded.get(column.name)
    const [field, earlier] = [fieldOf(column), before && fieldOf(before)]
    if (earlier === undefined || earlier === field) return []
    return [`-- rename ${earlier} to ${field}, which keeps the column ${column.name}; no row changes`]
  })

async function changesOf(
  tx: Queryable,
  engine: Engine,
  table: ResourceTable,
  existing: ExistingTable,
  prepared: ReadonlySet<string>,
): Promise<TableChanges> {
  if (existing.types.size === 0) return { ...noChanges, statements: createTableStatements(tx, engine, table) }
  const shared = sharedColumns(table)
  if (shared.length > 0) return { ...noChanges, mismatches: shared }
  const isPrepared = ({ name }: ResourceColumn) => prepared.has(`${table.name}.${name}`)
  const pending = (await dataStepsOf(tx, table, existing)).filter(({ column }) => !isPrepared(column))
  const settled = { prepared: isPrepared, pending: pending.map(({ column }) => column.name) }
  const changes = await diffReferences(
    tx,
    engine,
    table,
    existing,
    await diffTable(tx, engine, table, existing, settled),
  )
  for (const step of pending) changes.mismatches.push(await pendingStep(tx, step))
  await diffTuples(tx, table, existing, changes)
  return changes
}

const noChanges: TableChanges = { statements: [], constants: [], defaults: [], fills: [], mismatches: [] }

/** Applies the changes to one table. Returns the statements, and a comment for each filled column. */
async function apply(
  tx: Queryable,
  engine: Engine,
  { name: table, path, ids = 'integer' }: ResourceTable,
  { statements, constants, defaults, fills }: TableChanges,
  now: string,
): Promise<string[]> {
  for (const statement of statements) await sql.raw(statement).execute(tx)
  const filled: string[] = []
  for (const column of constants) {
    const rows = await countRows(tx, table, sql`true`)
    if (rows > 0) filled.push(`-- fill ${column.name} of ${table} in ${rowCount(rows)}, as the default of the column`)
  }
  for (const column of defaults) {
    const rows = await fillDefault(tx, table, column, now).catch((error) => {
      if (!engine.isDuplicate(error)) throw error
      const what = `several rows of ${table} would have its default, and unique includes it`
      throw new TableMismatch(`${path}: the field ${fieldOf(column)} cannot get a default: ${what}`)
    })
    if (rows > 0) filled.push(`-- fill ${table}.${column.name} with its default in ${rowCount(rows)}`)
  }
  for (const column of fills) await fillKeys(tx, engine, { name: table, ids }, column)
  return [
    ...statements,
    ...filled,
    ...fills.map((column) => `-- fill ${table}.${column}_key with the case-folded ${column}`),
  ]
}

/** Stores the default in rows without a value. Each of them gets a new revision, because its representation changes. */
async function fillDefault(tx: Queryable, table: string, column: ResourceColumn, now: string): Promise<number> {
  const value = column.default
  const key = column.folded ? { [`${column.name}_key`]: caseFold(String(value)) } : {}
  const set = { [column.name]: value, ...key, ...nextRevision(table, now) }
  // Typed as `products`, because all resource tables have the same bookkeeping columns.
  const query = tx
    .updateTable(table as 'products')
    .set(set)
    .where(sql.ref(column.name), 'is', null)
  return Number((await query.executeTakeFirst()).numUpdatedRows)
}

/**
 * Sets the companion column of rows without a value to an empty string, which determines their sort position. Runs at
 * every start, because a node of an earlier release may have written such rows since the last start.
 */
async function fillBlanks(tx: Queryable, { name, columns }: ResourceTable): Promise<string[]> {
  const filled: string[] = []
  for (const column of columns.filter(({ blank }) => blank)) {
    const [value, key] = [column.name, `${column.name}_key`].map((name) => sql.ref(name))
    const query = sql`update ${sql.ref(name)} set ${key} = '' where ${key} is null and ${value} is null`
    const rows = Number((await query.execute(tx)).numAffectedRows ?? 0)
    if (rows > 0) filled.push(`-- fill ${name}.${column.name}_key with an empty string in ${rowCount(rows)}`)
  }
  return filled
}
