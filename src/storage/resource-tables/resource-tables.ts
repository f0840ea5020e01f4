import { sql } from 'kysely'
import type { Queryable } from '../database.ts'
import type { Engine } from '../engine.ts'
import { caseFold } from '../rows/page-query.ts'
import { nextRevision } from '../rows/revision.ts'
import { createTableStatements } from './ddl.ts'
import { fillTotals } from './fill-totals.ts'
import { diffReferences } from './reference-diff.ts'
import type { ResourceColumn, ResourceTable } from './resource-columns.ts'
import {
  camel,
  diffTable,
  type ExistingTable,
  type RecordedColumn,
  rowCount,
  type TableChanges,
} from './schema-diff.ts'
import { diffTuples } from './unique-tuples.ts'

/**
 * Thrown if a table does not match its declaration. The message lists each mismatch with its remedy; nothing was
 * changed.
 */
export class TableMismatch extends Error {
  override name = 'TableMismatch'
  readonly exitCode = 2
}

/**
 * Changes the tables to match their declarations and returns the executed statements. Makes only safe changes: adds
 * tables, indexes, and columns that are optional or have a default. Throws `TableMismatch` for any other difference, and
 * never deletes rows. A row that receives a default gets a new revision, with `now` as its modification time.
 */
export async function reconcile(
  tx: Queryable,
  engine: Engine,
  tables: readonly ResourceTable[],
  now: string,
): Promise<string[]> {
  const executed: string[] = []
  const mismatches: string[] = []
  for (const table of tables) {
    const recorded = await recordedColumns(tx, table)
    const declared = JSON.stringify(recordOf(table))
    if (recorded === declared) {
      executed.push(...(await fillBlanks(tx, table)))
      continue
    }
    const existing = await readTable(tx, engine, table, recorded)
    const changes =
      existing.types.size === 0
        ? { ...noChanges, statements: createTableStatements(tx, engine, table) }
        : await diffReferences(tx, engine, table, existing, await diffTable(tx, engine, table, existing))
    if (existing.types.size > 0) await diffTuples(tx, table, existing, changes)
    mismatches.push(...changes.mismatches)
    // After a mismatch, everything is rolled back. Only check the remaining tables, so that all mismatches are reported
    // at once.
    if (mismatches.length > 0) continue
    executed.push(...(await apply(tx, engine, table, changes, now)), ...(await fillBlanks(tx, table)))
    await saveRecord(tx, table.name, declared)
  }
  const filled = mismatches.length > 0 ? { executed: [], mismatches: [] } : await fillTotals(tx, tables, now)
  mismatches.push(...filled.mismatches)
  if (mismatches.length > 0) throw new TableMismatch(mismatches.join('\n'))
  return [...executed, ...filled.executed]
}

const noChanges: TableChanges = { statements: [], defaults: [], fills: [], mismatches: [] }

/** Applies the changes to one table. Returns the statements, and a comment for each column that was filled. */
async function apply(
  tx: Queryable,
  engine: Engine,
  { name: table, path }: ResourceTable,
  { statements, defaults, fills }: TableChanges,
  now: string,
): Promise<string[]> {
  for (const statement of statements) await sql.raw(statement).execute(tx)
  const filled: string[] = []
  for (const column of defaults) {
    const rows = await fillDefault(tx, table, column, now).catch((error) => {
      if (!engine.isDuplicate(error)) throw error
      const what = `several rows of ${table} would have its default, and unique includes it`
      throw new TableMismatch(`${path}: the field ${camel(column.name)} cannot get a default: ${what}`)
    })
    if (rows > 0) filled.push(`-- fill ${table}.${column.name} with its default in ${rowCount(rows)}`)
  }
  for (const column of fills) await fillKeys(tx, table, column)
  return [
    ...statements,
    ...filled,
    ...fills.map((column) => `-- fill ${table}.${column}_key with the case-folded ${column}`),
  ]
}

/** Stores the default in rows without a value. Each gets a new revision, because its representation changes. */
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

/** Returns what is recorded about a table, so that a later start can detect changes to the declaration. */
const recordOf = ({ columns }: ResourceTable): RecordedColumn[] => columns.map(({ sql: _, ...column }) => column)

async function recordedColumns(tx: Queryable, { name }: ResourceTable): Promise<string | undefined> {
  const query = tx.selectFrom('resourceTables').select('columns').where('name', '=', name)
  return (await query.executeTakeFirst())?.columns
}

async function saveRecord(tx: Queryable, name: string, columns: string): Promise<void> {
  await tx
    .insertInto('resourceTables')
    .values({ name, columns })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ columns }))
    .execute()
}

async function readTable(tx: Queryable, engine: Engine, { name }: ResourceTable, recorded: string | undefined) {
  const { rows: columns } = await engine.columnsOf(name).execute(tx)
  const { rows: indexes } = await engine.indexesOf(name).execute(tx)
  const { rows: foreignKeys } = await engine.foreignKeysOf(name).execute(tx)
  const before = recorded === undefined ? [] : (JSON.parse(recorded) as RecordedColumn[])
  const keys = indexes.map(({ name, columns, unique }) => ({ name, columns: columns.split(','), unique }))
  const tuples = keys.filter(({ columns, unique }) => unique && columns.length > 1)
  const existing: ExistingTable = {
    types: new Map(columns.map((column) => [column.name, column.type])),
    indexed: new Set(keys.filter((key) => !tuples.includes(key)).map(({ columns }) => columns[0] as string)),
    unique: new Set(keys.flatMap(({ columns, unique }) => (unique && columns.length === 1 ? columns : []))),
    references: new Map(foreignKeys.map(({ column, table }) => [column, table])),
    tuples: new Map(tuples.map(({ name, columns }) => [name, columns])),
    recorded: new Map(before.map((column) => [column.name, column])),
  }
  return existing
}

const pageRows = 500

/** Fills the companion column in every row. Neither engine can do the work of `caseFold` in SQL. */
async function fillKeys(tx: Queryable, table: string, column: string): Promise<void> {
  const [tableRef, text, key] = [table, column, `${column}_key`].map((name) => sql.ref(name))
  for (let after = 0; ; ) {
    const page = sql<{ id: number; text: string | null }>`
      select id, ${text} as text from ${tableRef} where id > ${after} order by id limit ${pageRows}`
    const { rows } = await page.execute(tx)
    for (const row of rows) {
      if (row.text === null) continue
      await sql`update ${tableRef} set ${key} = ${caseFold(row.text)} where id = ${row.id}`.execute(tx)
    }
    if (rows.length < pageRows) return
    after = rows.at(-1)?.id as number
  }
}
