import { sql } from 'kysely'
import type { Database, Queryable } from '../database.ts'
import type { Engine } from '../engine.ts'
import { idBeforeAll, type RowId } from '../ids.ts'
import { caseFold } from '../rows/page-query.ts'
import { nextRevision } from '../rows/revision.ts'
import {
  type DataStep,
  type DoneStep,
  describeStep,
  obstacleOf,
  prepareStatements,
  rowsOfStep,
  stepColumn,
} from './data-steps.ts'
import { idTypeOf, typeNameOf } from './ddl.ts'
import { type DefinitionLabel, interruptedChange, progressAt } from './history.ts'
import { countRows, TableMismatch } from './mismatch.ts'
import {
  fieldOf,
  InvalidCell,
  idsOf,
  type ResourceColumn,
  type StoredCell,
  type StoredCells,
} from './resource-columns.ts'

/** The progress of a step. */
export interface StepProgress {
  table: string
  column: string
  rows: number
  total: number
}

interface BatchOptions {
  label: DefinitionLabel
  now: () => number
  onProgress: (progress: StepProgress) => void
}

const batchRows = 500

/**
 * Computes and stores the values of a step, with one batch of rows per transaction. Resumes an interrupted run of the
 * same definition. Returns the number of rows and the statements that prepared the step. Throws `TableMismatch` with
 * the id of a row that has no valid value.
 */
export async function runStep(db: Database, step: DataStep, options: BatchOptions): Promise<DoneStep> {
  const { table, column } = step
  const { statements, ...first } = await db.write((tx) => begin(tx, db, step, options))
  let { after, rows } = first
  const waiting = await db.write((tx) => countRows(tx, table.name, rowsOfStep(step, after)))
  const total = rows + waiting
  for (;;) {
    options.onProgress({ table: table.name, column: column.name, rows, total })
    const done = await db.write((tx) => runBatch(tx, db.engine, step, after, options))
    if (done.rows === 0) return { step, rows, statements }
    after = done.after
    rows += done.rows
  }
}

/**
 * Prepares a step, unless an interrupted run has already prepared it. Returns the id after which to start, the number
 * of rows already written, and the executed statements.
 */
async function begin(tx: Queryable, { engine }: Database, step: DataStep, { label, now }: BatchOptions) {
  const { table, column } = step
  const interrupted = await interruptedChange(tx, table.name, column.name, label)
  if (interrupted !== undefined) return { ...interrupted, statements: [] }
  const obstacle = obstacleOf(step)
  if (obstacle !== undefined) throw new TableMismatch(obstacle)
  const statements = prepareStatements(tx, engine, step)
  for (const statement of statements) await sql.raw(statement).execute(tx)
  await tx
    .deleteFrom('schemaChanges')
    .where('tableName', '=', table.name)
    .where('columnName', '=', column.name)
    .where('finishedAt', 'is', null)
    .execute()
  const startedAt = new Date(now()).toISOString()
  const first = { after: idBeforeAll[idsOf(table)], rows: 0 }
  await tx
    .insertInto('schemaChanges')
    .values({
      ...{ startedAt, finishedAt: null, tableName: table.name, columnName: column.name, position: 0 },
      ...{ change: describeStep(step), ...progressAt(first.after), rows: first.rows, ...label },
    })
    .execute()
  return { ...first, statements }
}

/** Writes the next batch of rows and records the progress. */
async function runBatch(tx: Queryable, engine: Engine, step: DataStep, after: RowId, { now }: BatchOptions) {
  const { table, column } = step
  const found = await readBatch(tx, step, after)
  if (found.length > 0) await store(tx, engine, step, found, new Date(now()).toISOString())
  const last = (found.at(-1)?.id ?? after) as RowId
  const { numUpdatedRows } = await tx
    .updateTable('schemaChanges')
    .set({ ...progressAt(last), rows: sql<number>`rows + ${found.length}` })
    .where('tableName', '=', table.name)
    .where('columnName', '=', column.name)
    .where('finishedAt', 'is', null)
    .executeTakeFirst()
  if (numUpdatedRows === 0n) throw new Error(`another command has ended the change of ${table.name}: start it again`)
  return { after: last, rows: found.length }
}

/** Writes all rows of a step in one transaction, and returns their number. */
export async function fillRows(tx: Queryable, engine: Engine, step: DataStep, now: string): Promise<number> {
  let rows = 0
  for (let after = idBeforeAll[idsOf(step.table)]; ; ) {
    const found = await readBatch(tx, step, after)
    if (found.length === 0) return rows
    await store(tx, engine, step, found, now)
    after = found.at(-1)?.id as RowId
    rows += found.length
  }
}

/** Writes the new values of rows in one statement. */
async function store(tx: Queryable, engine: Engine, step: DataStep, rows: Record<string, unknown>[], now: string) {
  const { table } = step
  const target = stepColumn(step)
  const cells = rows.map((row) => {
    const value = newValue(step, row)
    return [row.id, typeof value === 'bigint' ? String(value) : value, keyOf(target, value)]
  })
  const cell = (at: number) => sql`json_each.value ->> ${sql.lit(at)}`
  const type = typeNameOf(target, engine)
  const key = target.folded ? { [`${target.name}_key`]: cell(2) } : {}
  await tx
    .updateTable(table.name as 'products')
    .set({ [target.name]: sql`cast(${cell(1)} as ${sql.raw(type)})`, ...key, ...nextRevision(table.name, now) })
    .from(engine.jsonRows(JSON.stringify(cells)) as never)
    .where(sql.ref(`${table.name}.id`), '=', sql`cast(${cell(0)} as ${idTypeOf(engine, table)})`)
    .execute()
}

const keyOf = ({ blank }: ResourceColumn, value: StoredCell) =>
  value === null ? (blank ? '' : null) : caseFold(String(value))

/** Reads the next rows, with the recorded columns that the step needs; decimals are text. */
async function readBatch(tx: Queryable, step: DataStep, after: RowId) {
  const { table, existing, kind, before } = step
  const read = kind === 'convert' && before ? [before] : [...existing.recorded.values()]
  const cells = read
    .filter(({ name }) => existing.types.has(name))
    .map(({ name, kind }) => {
      const cell = kind.startsWith('decimal') ? sql`cast(${sql.ref(name)} as text)` : sql.ref(name)
      return sql`${cell} as ${sql.ref(name)}`
    })
  const { rows } = await sql<Record<string, unknown>>`
    select ${sql.join([sql`id`, ...cells])} from ${sql.ref(table.name)} where ${rowsOfStep(step, after)}
    order by id limit ${batchRows}`.execute(tx.withoutPlugins())
  return rows
}

/** Computes a row's new value. Throws `TableMismatch` if the row has no valid value. */
function newValue(step: DataStep, row: Record<string, unknown>): StoredCell {
  const { kind, table, column, before, existing } = step
  const field = fieldOf(column)
  try {
    if (kind === 'convert' && before) {
      return table.changes?.convert[field]?.(row[column.name], before.kind) as StoredCell
    }
    const fill = table.changes?.fill[field]
    if (fill === undefined || 'constant' in fill) return fill?.constant ?? null
    const fields = table.columns.filter(({ name }) => existing.recorded.has(name) && name in row)
    const cells: [string, StoredCells[string]][] = fields.map((one) => [
      fieldOf(one),
      { kind: existing.recorded.get(one.name)?.kind ?? one.kind, value: row[one.name] },
    ])
    return fill.compute({ id: { kind: idsOf(table), value: row.id }, ...Object.fromEntries(cells) })
  } catch (error) {
    if (!(error instanceof InvalidCell)) throw error
    const nothing = kind === 'convert' ? `; ${column.name} still has its old values` : ''
    throw new TableMismatch(
      `${table.path}: the new value of ${field} in row ${row.id} of ${table.name} ${error.message}${nothing}. ` +
        'Correct the row or the function in migrate, then run plinth migrate again',
    )
  }
}
