import { sql } from 'kysely'
import type { Queryable } from '../database.ts'
import { nextRevision } from '../rows/revision.ts'
import type { ResourceColumn, ResourceTable, TotalSource } from './resource-columns.ts'
import { camel, rowCount } from './schema-diff.ts'

/** What was filled, as comments, and error messages for totals that do not fit. */
interface Filled {
  executed: string[]
  mismatches: string[]
}

/**
 * Stores sums and counts in rows that have another value: those of a new column, and those whose sources a node without the
 * declaration has written since the last start. Each row gets a new revision, because its representation changes.
 */
export async function fillTotals(tx: Queryable, tables: readonly ResourceTable[], now: string): Promise<Filled> {
  const filled: Filled = { executed: [], mismatches: [] }
  for (const table of tables) {
    for (const column of table.columns) {
      if (column.total === undefined) continue
      const tooLarge = await countTooLarge(tx, column.total)
      if (tooLarge > 0) {
        const what = `would be larger than ${column.total.limit} in its smallest unit in ${rowCount(tooLarge)}`
        filled.mismatches.push(`${table.path}: the sum ${camel(column.name)} ${what}. Declare it with more digits`)
        continue
      }
      const rows = await fill(tx, table.name, column, column.total, now)
      if (rows > 0) filled.executed.push(`-- fill ${table.name}.${column.name} in ${rowCount(rows)}`)
    }
  }
  return filled
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

async function fill(tx: Queryable, table: string, { name }: ResourceColumn, source: TotalSource, now: string) {
  // Named by its alias, because a table may sum its own rows.
  const total = sql`(
    select ${amountOf(source)} from ${sql.ref(source.table)} as source
    where source.${sql.ref(source.reference)} = ${sql.ref(table)}.id
  )`
  // Cast to a table whose type has the columns that every resource table has.
  const query = tx
    .updateTable(table as 'products')
    .set({ [name]: total, ...nextRevision(table, now) } as object)
    .where(sql<boolean>`${sql.ref(`${table}.${name}`)} is distinct from ${total}`)
  return Number((await query.executeTakeFirst()).numUpdatedRows)
}
