import { sql } from 'kysely'
import type { Queryable } from '../database.ts'
import type { Engine } from '../engine.ts'
import { type AdoptedTable, differences, systemColumns } from './adopted-columns.ts'
import { duplicateValues, invalidValues } from './adopted-values.ts'
import { fillRows } from './batches.ts'
import { fillKeys } from './computed-columns.ts'
import { dataStepsOf, describeStep, prepareStatements } from './data-steps.ts'
import {
  addKeyColumnStatement,
  addSystemColumnStatement,
  comparedIndexStatements,
  createIndexStatement,
  uniqueTupleStatement,
} from './ddl.ts'
import { countRows, rowCount, TableMismatch } from './mismatch.ts'
import { readTable } from './read-table.ts'
import { type RecordedColumn, recordAdoption, recordOf, type TableRecord } from './record.ts'
import { fieldOf, type ResourceColumn, type ResourceTable } from './resource-columns.ts'
import { withStoredNames } from './stored-names.ts'
import { sameColumns } from './unique-tuples.ts'

/** The result of adopting an existing table. */
interface Adoption {
  /** The executed statements, and SQL comments that describe changed rows. */
  executed: string[]
  /** Empty, or a single error message about all differences that the operator must resolve. */
  mismatches: string[]
  /** The columns to record, including those that have just been adopted. */
  recorded: readonly RecordedColumn[]
  /** The columns of new fields whose values have been computed. */
  filled: readonly string[]
}

/**
 * Adopts a table that the service did not create. Compares its columns with the declaration, checks the values of every
 * row, and adds missing bookkeeping columns and unique indexes. Later starts compare the columns again, because other
 * programs may have changed them. Does nothing for tables that the service created.
 */
export async function adopt(
  tx: Queryable,
  engine: Engine,
  declared: ResourceTable,
  record: TableRecord | undefined,
  now: string,
): Promise<Adoption> {
  const none: Adoption = { executed: [], mismatches: [], recorded: record?.columns ?? [], filled: [] }
  if (declared.overlay === undefined || (record !== undefined && !record.isAdopted)) return none
  const of = await readAdopted(tx, engine, declared, record)
  if (of === undefined) return none
  const found = differences(of)
  const isUnchanged = !of.isNew && of.fresh.length === 0
  if (found.length > 0 || isUnchanged)
    return { ...none, mismatches: refusal(of, 'does not fit its declaration', found) }
  const invalid = await invalidValues(tx, of)
  if (invalid.length > 0) return { ...none, mismatches: refusal(of, 'has values that break its declaration', invalid) }
  const executed = await prepare(tx, of, now)
  const shared = await duplicateValues(tx, of)
  if (shared.length > 0) return { ...none, mismatches: refusal(of, 'has values that break its declaration', shared) }
  executed.push(...(await execute(tx, uniqueStatements(of))))
  const added = recordOf({ ...declared, columns: of.fresh }).map(
    ({ references: _, ...column }): RecordedColumn => ({ ...column, adopted: true }),
  )
  const recorded = [...none.recorded, ...added]
  const steps = of.isNew ? await fillNewFields(tx, of, recorded, now) : []
  return {
    ...none,
    executed: [...executed, ...steps.flatMap(({ lines }) => lines)],
    recorded,
    filled: steps.map(({ name }) => name),
  }
}

async function readAdopted(
  tx: Queryable,
  engine: Engine,
  declared: ResourceTable,
  record: TableRecord | undefined,
): Promise<AdoptedTable | undefined> {
  const existing = await readTable(tx, engine, declared.name, record?.columns ?? [])
  if (existing.types.size === 0) return undefined
  const { rows } = await engine.detailsOf(declared.name).execute(tx)
  const details = new Map(rows.map((column) => [column.name, column]))
  const table = withStoredNames(declared, record?.columns ?? [], existing.types)
  const isFresh = ({ name, total }: ResourceColumn) =>
    details.has(name) && !existing.recorded.has(name) && total === undefined
  const fresh = table.columns.filter(isFresh)
  const adopted = table.columns.filter((column) => column.adopted || isFresh(column))
  return { engine, table, existing, details, isNew: record === undefined, adopted, fresh }
}

const refusal = ({ table: { path, name } }: AdoptedTable, what: string, lines: readonly string[]): string[] =>
  lines.length === 0
    ? []
    : [
        [
          `${path}: the table ${name}, which the service did not create, ${what}. Change the declaration or the table, then start again:`,
          ...lines.map((line) => `    ${line}`),
        ].join('\n'),
      ]

/** Adds the bookkeeping columns, adds and fills the case-folded companion columns, and makes text sort bytewise. */
async function prepare(tx: Queryable, of: AdoptedTable, now: string): Promise<string[]> {
  const { engine, table, details, fresh, isNew } = of
  const { name } = table
  const missing = isNew ? systemColumns.filter((column) => !details.has(column.name)) : []
  const folded = fresh.filter((column) => column.folded)
  const bytewise = fresh.flatMap((column) => {
    const found = details.get(column.name)
    return found && column.sql === 'key' ? engine.sortBytewise(name, found) : []
  })
  const rows = await countRows(tx, name, sql`true`)
  const statements = await execute(tx, [
    ...missing.map((column) => addSystemColumnStatement(tx, name, column, column.initial ?? now)),
    ...(isNew ? ['created_at', 'updated_at'].map((column) => createIndexStatement(name, column)) : []),
    ...bytewise,
    ...folded.map((column) => addKeyColumnStatement(tx, engine, name, column)),
  ])
  if (isNew) await recordAdoption(tx, name)
  for (const column of folded) await fillKeys(tx, engine, table, column.name)
  return [
    ...(isNew ? [`-- use ${name}, which exists, with ${rowCount(rows)}${unused(of)}`] : []),
    ...statements,
    ...folded.map(
      (column) => `-- fill ${name}.${column.name}_key with the case-folded ${column.name} in ${rowCount(rows)}`,
    ),
  ]
}

function unused({ table, details }: AdoptedTable): string {
  const used = ['id', ...systemColumns.map(({ name }) => name), ...table.columns.map(({ name }) => name)]
  const others = [...details.keys()].filter((name) => !used.includes(name))
  return others.length > 0 ? `; no field uses ${others.join(', ')}` : ''
}

/** Returns the statements for the unique indexes over columns that already exist. */
function uniqueStatements({ table, existing, adopted, fresh }: AdoptedTable): string[] {
  const fields = adopted.map(fieldOf)
  const isMissing = (columns: readonly string[]) =>
    ![...existing.tuples.values()].some((others) => sameColumns(columns, others))
  const tuples = (table.tuples ?? []).filter(
    (tuple) => tuple.fields.every((field) => fields.includes(field)) && isMissing(tuple.columns),
  )
  return [
    ...fresh
      .filter((column) => column.unique && !(existing.unique.has(column.name) && !column.folded))
      .flatMap((column) => comparedIndexStatements(table.name, column)),
    ...tuples.map((tuple) => uniqueTupleStatement(table.name, tuple)),
  ]
}

/** Computes the values of new fields in existing rows with the functions in `migrate.fill`. */
async function fillNewFields(tx: Queryable, of: AdoptedTable, recorded: readonly RecordedColumn[], now: string) {
  const { engine, table } = of
  const existing = await readTable(tx, engine, table.name, recorded)
  const done: { name: string; lines: string[] }[] = []
  for (const step of await dataStepsOf(tx, table, existing)) {
    const statements = await execute(tx, prepareStatements(tx, engine, step))
    const rows = await fillRows(tx, engine, step, now)
    done.push({ name: step.column.name, lines: [...statements, `-- ${describeStep(step)} in ${rowCount(rows)}`] })
  }
  return done
}

async function execute(tx: Queryable, statements: readonly string[]): Promise<string[]> {
  for (const statement of statements) {
    await sql
      .raw(statement)
      .execute(tx)
      .catch((error: Error) => {
        throw new TableMismatch(`The database rejects a statement: ${error.message}\n    ${statement};`, {
          cause: error,
        })
      })
  }
  return [...statements]
}
