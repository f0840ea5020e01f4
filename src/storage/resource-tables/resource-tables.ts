import { sql } from 'kysely'
import type { Queryable } from '../database.ts'
import type { Engine } from '../engine.ts'
import { caseFold } from '../rows/page-query.ts'
import { nextRevision } from '../rows/revision.ts'
import { creationOf } from './ddl.ts'
import type { ResourceColumn, ResourceTable } from './resource-columns.ts'
import { type Changes, changesOf, type Found, type RecordedColumn } from './schema-diff.ts'

/** An existing table does not match its declaration; each line of the message states the remedy. Nothing was changed. */
export class TableMismatch extends Error {
  override name = 'TableMismatch'
  readonly exitCode = 2
}

/**
 * Brings the tables in line with their declarations, and returns the statements that were run. Makes only safe changes:
 * new tables, columns that are optional or have a default, and indexes. Throws `TableMismatch` for everything else; rows are
 * never dropped. A row that receives a default gets a new revision, made at `now`.
 */
export async function reconcile(
  tx: Queryable,
  engine: Engine,
  tables: readonly ResourceTable[],
  now: string,
): Promise<string[]> {
  const run: string[] = []
  const mismatches: string[] = []
  for (const table of tables) {
    const recorded = await recordOf(tx, table)
    const wanted = JSON.stringify(recordable(table))
    if (recorded === wanted) {
      run.push(...(await fillBlanks(tx, table)))
      continue
    }
    const found = await look(tx, engine, table, recorded)
    const changes =
      found.types.size === 0
        ? { ...noChanges, statements: creationOf(tx, engine, table) }
        : await changesOf(tx, engine, table, found)
    mismatches.push(...changes.refused)
    // A mismatch rolls back everything, so all tables are checked first.
    if (mismatches.length > 0) continue
    run.push(...(await apply(tx, table.name, changes, now)), ...(await fillBlanks(tx, table)))
    await record(tx, table.name, wanted)
  }
  if (mismatches.length > 0) throw new TableMismatch(mismatches.join('\n'))
  return run
}

const noChanges: Changes = { statements: [], defaults: [], fills: [], refused: [] }

/** Applies the changes of one table; returns the statements and notes of filled columns. */
async function apply(tx: Queryable, table: string, changes: Changes, now: string): Promise<string[]> {
  const { statements, defaults, fills } = changes
  for (const statement of statements) await sql.raw(statement).execute(tx)
  const given: string[] = []
  for (const column of defaults) {
    const rows = await fillDefault(tx, table, column, now)
    if (rows > 0) given.push(`-- fill ${table}.${column.name} with its default in ${rows} rows`)
  }
  for (const column of fills) await fillKeys(tx, table, column)
  return [...statements, ...given, ...fills.map((column) => `-- fill ${table}.${column}_key with the folded ${column}`)]
}

/** Stores the default in the rows without a value, each with a new revision, because their representation changes. */
async function fillDefault(tx: Queryable, table: string, column: ResourceColumn, now: string): Promise<number> {
  const value = column.default
  const key = column.folded ? { [`${column.name}_key`]: caseFold(String(value)) } : {}
  const set = { [column.name]: value, ...key, ...nextRevision(table, now) }
  // The type only names the columns that every such table has.
  const query = tx
    .updateTable(table as 'products')
    .set(set)
    .where(sql.ref(column.name), 'is', null)
  return Number((await query.executeTakeFirst()).numUpdatedRows)
}

/**
 * Sets the companion column of rows without a value to the empty text by which they sort. Runs at each start, because a node
 * of
 * an earlier release may have written such rows since the last one.
 */
async function fillBlanks(tx: Queryable, { name, columns }: ResourceTable): Promise<string[]> {
  const filled: string[] = []
  for (const column of columns.filter(({ blank }) => blank)) {
    const [value, key] = [column.name, `${column.name}_key`].map((one) => sql.ref(one))
    const query = sql`update ${sql.ref(name)} set ${key} = '' where ${key} is null and ${value} is null`
    const rows = Number((await query.execute(tx)).numAffectedRows ?? 0)
    if (rows > 0) filled.push(`-- fill ${name}.${column.name}_key with an empty text in ${rows} rows`)
  }
  return filled
}

/** The columns recorded for a table, so that a later start can detect changes. */
const recordable = ({ columns }: ResourceTable): RecordedColumn[] => columns.map((column) => ({ ...column }))

async function recordOf(tx: Queryable, { name }: ResourceTable): Promise<string | undefined> {
  const query = tx.selectFrom('resourceTables').select('columns').where('name', '=', name)
  return (await query.executeTakeFirst())?.columns
}

async function record(tx: Queryable, name: string, columns: string): Promise<void> {
  await tx
    .insertInto('resourceTables')
    .values({ name, columns })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ columns }))
    .execute()
}

async function look(tx: Queryable, engine: Engine, { name }: ResourceTable, recorded: string | undefined) {
  const { rows: columns } = await engine.columnsOf(name).execute(tx)
  const { rows: indexes } = await engine.indexesOf(name).execute(tx)
  const before = recorded === undefined ? [] : (JSON.parse(recorded) as RecordedColumn[])
  const found: Found = {
    types: new Map(columns.map((column) => [column.name, column.type])),
    indexed: new Set(indexes.map(({ column }) => column)),
    unique: new Set(indexes.filter(({ unique }) => unique).map(({ column }) => column)),
    recorded: new Map(before.map((column) => [column.name, column])),
  }
  return found
}

const pageRows = 500

/** Writes the case-folded text of every row into its companion column, which SQL on either engine could not compute. */
async function fillKeys(tx: Queryable, table: string, column: string): Promise<void> {
  const [place, text, key] = [table, column, `${column}_key`].map((name) => sql.ref(name))
  for (let after = 0; ; ) {
    const page = sql<{ id: number; text: string | null }>`
      select id, ${text} as text from ${place} where id > ${after} order by id limit ${pageRows}`
    const { rows } = await page.execute(tx)
    for (const row of rows) {
      if (row.text === null) continue
      await sql`update ${place} set ${key} = ${caseFold(row.text)} where id = ${row.id}`.execute(tx)
    }
    if (rows.length < pageRows) return
    after = rows.at(-1)?.id as number
  }
}
