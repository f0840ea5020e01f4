import { sql } from 'kysely'
import type { Queryable } from '../database.ts'
import type { Engine } from '../engine.ts'
import {
  type DataStep,
  type DoneStep,
  dataStepsOf,
  describeStep,
  obstacleOf,
  prepareStatements,
  rowsOfStep,
  swapStatements,
} from './data-steps.ts'
import { type DefinitionLabel, interruptedChange, recordChanges } from './history.ts'
import { countRows, rowCount, TableMismatch } from './mismatch.ts'
import { readTable } from './read-table.ts'
import { readRecord, recordOf, saveRecord } from './record.ts'
import { removeUndeclared } from './removal.ts'
import { fieldOf, type ResourceTable } from './resource-columns.ts'
import { withStoredNames } from './stored-names.ts'
import { tidyTable } from './tidy.ts'

/** What `plinth migrate` may do in addition to the changes made at every start. */
export interface ThoroughOptions {
  /** Rename the columns of renamed fields to match. */
  tidy?: boolean
  /** Drop columns and tables that are no longer declared. */
  allowDataLoss?: boolean
}

/** The changes that `plinth migrate` makes before it reconciles the tables. */
export interface PreparedMigration {
  /** The executed statements, and SQL comments that describe changed rows. */
  lines: string[]
  /** Columns whose values are filled or converted: `table.column`. */
  columns: Set<string>
  steps: DataStep[]
  /** True if no process of the service may use the database during the migration. */
  isExclusive: boolean
}

/** Finds the data steps of all tables. */
export async function findSteps(tx: Queryable, engine: Engine, tables: readonly ResourceTable[]): Promise<DataStep[]> {
  const steps: DataStep[] = []
  for (const declared of tables) {
    const record = await readRecord(tx, declared.name)
    const before = record?.columns ?? []
    const known = withStoredNames(declared, before)
    if (declared.changes === undefined || record?.text === JSON.stringify(recordOf(known))) continue
    // The table has not been adopted yet; adoption computes the values of its new fields.
    if (declared.overlay !== undefined && record === undefined) continue
    const existing = await readTable(tx, engine, declared.name, before)
    steps.push(...(await dataStepsOf(tx, withStoredNames(declared, before, existing.types), existing)))
  }
  return steps
}

export interface ThoroughUnit extends ThoroughOptions {
  /** Steps whose rows have all been written; undefined for a dry run, which prepares the steps itself. */
  done?: readonly DoneStep[]
}

interface UnitOptions extends ThoroughUnit {
  tables: readonly ResourceTable[]
  label: DefinitionLabel
  now: string
}

/**
 * Swaps in the new values of each data step. Drops undeclared columns and tables if `allowDataLoss` is set, and renames
 * columns if `tidy` is set. A dry run also prepares the steps, but computes no values.
 */
export async function prepareTables(tx: Queryable, engine: Engine, options: UnitOptions): Promise<PreparedMigration> {
  const { tables, label, now } = options
  const done = options.done ?? (await rehearsed(tx, engine, options))
  const lines: string[] = []
  for (const step of done) lines.push(...(await place(tx, engine, step, now)))
  const others: { table: string; lines: string[] }[] = []
  if (options.allowDataLoss) others.push(...(await removeUndeclared(tx, engine, tables)))
  if (options.tidy) {
    for (const table of tables) others.push({ table: table.name, lines: await tidyTable(tx, engine, table) })
  }
  for (const { table, lines: more } of others) await recordChanges(tx, table, more, label, now)
  lines.push(...others.flatMap((other) => other.lines))
  const steps = done.map(({ step }) => step)
  const columns = new Set(steps.map(({ table, column }) => `${table.name}.${column.name}`))
  return { lines, columns, steps, isExclusive: lines.length > 0 }
}

/** Prepares the steps without computing values, and counts the rows that they would write. */
async function rehearsed(tx: Queryable, engine: Engine, { tables, label }: UnitOptions): Promise<DoneStep[]> {
  const done: DoneStep[] = []
  for (const step of await findSteps(tx, engine, tables)) {
    const { table, column } = step
    const obstacle = obstacleOf(step)
    if (obstacle !== undefined) throw new TableMismatch(obstacle)
    const interrupted = await interruptedChange(tx, table.name, column.name, label)
    const statements = interrupted ? [] : prepareStatements(tx, engine, step)
    const rows = await countRows(tx, table.name, rowsOfStep(step, interrupted?.after))
    for (const statement of statements) await sql.raw(statement).execute(tx)
    done.push({ step, rows, statements })
  }
  return done
}

/** Swaps in the new values of a step. Returns all statements of the step, including those that prepared it. */
async function place(tx: Queryable, engine: Engine, done: DoneStep, now: string): Promise<string[]> {
  const { step, rows, statements } = done
  const { table, column } = step
  const swap = swapStatements(step)
  for (const statement of swap) {
    await sql
      .raw(statement)
      .execute(tx)
      .catch((error) => {
        if (!engine.isDuplicate(error)) throw error
        const what = `several rows of ${table.name} would have the same converted value, and unique includes it`
        throw new TableMismatch(`${table.path}: the field ${fieldOf(column)} cannot be converted: ${what}`)
      })
  }
  await replaceRecord(tx, step)
  await tx
    .updateTable('schemaChanges')
    .set({ finishedAt: now })
    .where('tableName', '=', table.name)
    .where('columnName', '=', column.name)
    .where('finishedAt', 'is', null)
    .execute()
  return [...statements, `-- ${describeStep(step)} in ${rowCount(rows)}`, ...swap]
}

/** Records the new kind of a converted column. */
async function replaceRecord(tx: Queryable, { kind, table, column }: DataStep): Promise<void> {
  if (kind === 'fill') return
  const recorded = (await readRecord(tx, table.name))?.columns ?? []
  const { sql: _, ...converted } = column
  const columns = recorded.map((one) => (one.name === column.name ? converted : one))
  await saveRecord(tx, table.name, JSON.stringify(columns))
}
