import { sql } from 'kysely'
import type { Queryable } from '../database.ts'
import type { Engine } from '../engine.ts'
import { idBeforeAll, type RowId } from '../ids.ts'
import { type ColumnNames, snake } from '../rows/column-names.ts'
import { caseFold } from '../rows/page-query.ts'
import { nextRevision } from '../rows/revision.ts'
import { idTypeOf } from './ddl.ts'
import { rowCount } from './mismatch.ts'
import { fieldOf, idsOf, type ResourceColumn, type ResourceTable, type TotalSource } from './resource-columns.ts'
import { readColumnNames } from './stored-names.ts'

/** SQL comments about filled totals, and error messages about totals that are too large. */
interface Filled {
  executed: string[]
  mismatches: string[]
}

/**
 * Recomputes sums and counts, and updates the rows in which they differ. This fills new columns, and corrects totals
 * after writes by a node whose definition does not declare them. Each changed row gets a new revision, because its
 * representation changes.
 */
export async function fillTotals(tx: Queryable, tables: readonly ResourceTable[], now: string): Promise<Filled> {
  const filled: Filled = { executed: [], mismatches: [] }
  const names = tables.some(({ columns }) => columns.some(({ total }) => total)) ? await readColumnNames(tx) : new Map()
  for (const table of tables) {
    for (const column of table.columns) {
      const total = column.total && storedSource(column.total, names)
      if (total === undefined || !(await isOutdated(tx, table.name, column, total))) continue
      const tooLarge = await countTooLarge(tx, total)
      if (tooLarge > 0) {
        const what = `would be larger than ${total.limit} in its smallest unit in ${rowCount(tooLarge)}`
        filled.mismatches.push(`${table.path}: the sum ${fieldOf(column)} ${what}. Declare it with more digits`)
        continue
      }
      const rows = await fill(tx, table.name, column, total, now)
      if (rows > 0) filled.executed.push(`-- fill ${table.name}.${column.name} in ${rowCount(rows)}`)
    }
  }
  return filled
}

/** Replaces a source's column names, which are derived from field names, with the actual names in the database. */
function storedSource(source: TotalSource, names: ReadonlyMap<string, ColumnNames>): TotalSource {
  const stored = Object.entries(names.get(source.table) ?? {}).map(([field, column]) => [snake(field), column] as const)
  const columns = new Map(stored)
  const { reference, column } = source
  return {
    ...source,
    reference: columns.get(reference) ?? reference,
    column: column === null ? null : (columns.get(column) ?? column),
  }
}

const amountOf = ({ column }: TotalSource) =>
  column === null ? sql`count(*)` : sql`coalesce(sum(${sql.ref(column)}), 0)`

async function countTooLarge(tx: Queryable, source: TotalSource): Promise<number> {
  if (source.column === null) return 0
  const query = sql<{ rows: number }>`
    select count(*) as rows from (
      select 1 as one from ${sql.ref(source.table)} where ${sql.ref(source.reference)} is not null
      group by ${sql.ref(source.reference)} having abs(sum(${sql.ref(source.column)})) > ${BigInt(source.limit)}
    ) as too_large`
  return Number((await query.execute(tx)).rows[0]?.rows)
}

/** Returns SQL for the total of a row. The source table has an alias, because it may be the same table. */
const totalOf = (table: string, source: TotalSource) => sql`(
  select ${amountOf(source)} from ${sql.ref(source.table)} as source
  where source.${sql.ref(source.reference)} = ${sql.ref(table)}.id
)`

const differs = (table: string, column: string, source: TotalSource) =>
  sql<boolean>`${sql.ref(`${table}.${column}`)} is distinct from ${totalOf(table, source)}`

async function isOutdated(tx: Queryable, table: string, { name }: ResourceColumn, source: TotalSource) {
  const query = sql`select id from ${sql.ref(table)} where ${differs(table, name, source)} limit 1`
  return (await query.execute(tx)).rows.length > 0
}

async function fill(tx: Queryable, table: string, { name }: ResourceColumn, source: TotalSource, now: string) {
  // Typed as `products`, because all resource tables have the same bookkeeping columns.
  const query = tx
    .updateTable(table as 'products')
    .set({ [name]: totalOf(table, source), ...nextRevision(table, now) } as object)
    .where(differs(table, name, source))
  return Number((await query.executeTakeFirst()).numUpdatedRows)
}

const batchRows = 500

/** Fills the companion column in all rows with a value. Neither engine can compute `caseFold` in SQL. */
export async function fillKeys(
  tx: Queryable,
  engine: Engine,
  table: Pick<ResourceTable, 'name' | 'ids'>,
  column: string,
): Promise<void> {
  const [tableRef, text, key] = [table.name, column, `${column}_key`].map((name) => sql.ref(name))
  for (let after = idBeforeAll[idsOf(table)]; ; ) {
    const page = sql<{ id: RowId; text: string }>`
      select id, ${text} as text from ${tableRef} where id > ${after} and ${text} is not null
      order by id limit ${batchRows}`
    const { rows } = await page.execute(tx)
    if (rows.length === 0) return
    const cells = JSON.stringify(rows.map((row) => [row.id, caseFold(row.text)]))
    await sql`
      update ${tableRef} set ${key} = json_each.value ->> 1 from ${engine.jsonRows(cells)}
      where ${tableRef}.id = cast(json_each.value ->> 0 as ${idTypeOf(engine, table)})`.execute(tx)
    after = rows.at(-1)?.id as RowId
  }
}
