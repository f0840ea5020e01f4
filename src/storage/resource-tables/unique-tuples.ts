import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import type { Queryable } from '../database.ts'
import { comparedColumn, dropIndexStatement, uniqueTupleStatement } from './ddl.ts'
import { countRows, rowCount } from './mismatch.ts'
import type { ExistingTable } from './read-table.ts'
import { fieldOf, type ResourceColumn, type ResourceTable, type UniqueTuple } from './resource-columns.ts'
import { constantFor, type TableChanges } from './schema-diff.ts'

/**
 * Compares a table's unique multi-column indexes with its declaration and adds the differences to the table's changes.
 * An index is created only if no rows can violate it: the table is empty, or one of the columns is new and has no
 * value.
 */
export async function diffTuples(
  tx: Queryable,
  table: ResourceTable,
  existing: ExistingTable,
  changes: TableChanges,
): Promise<void> {
  const { tuples = [], name } = table
  // If there are other mismatches, the table may not have the columns that the index needs.
  const hasColumns = changes.mismatches.length === 0
  for (const tuple of tuples) {
    if (!hasColumns || [...existing.tuples.values()].some((columns) => sameColumns(columns, tuple.columns))) continue
    const isSafe = hasNewColumn(table, existing, tuple) || (await countRows(tx, name, sql`true`)) === 0
    if (isSafe) changes.statements.push(uniqueTupleStatement(name, tuple))
    else changes.mismatches.push(await missingIndex(tx, table, existing, tuple))
  }
  for (const [index, columns] of existing.tuples) {
    const isDeclared = tuples.some((tuple) => sameColumns(columns, tuple.columns))
    if (isDeclared || !index.startsWith(tupleIndexPrefix(name))) continue
    const fields = columns.map((column) => {
      const name = existing.types.has(column.slice(0, -4)) ? column.slice(0, -4) : column
      return fieldOf(table.columns.find((one) => one.name === name) ?? { name })
    })
    const what = `are not declared unique together, but have a unique index in ${name}`
    changes.mismatches.push(mismatch(table, fields, what, 'Drop it:', [dropIndexStatement(index)]))
  }
}

/**
 * Returns the prefix of the names of a table's unique multi-column indexes. It is unambiguous, because no column name
 * begins with an underscore.
 */
export const tupleIndexPrefix = (table: string) => `${table}__`

/**
 * Returns the name of a unique multi-column index. It contains a digest, because PostgreSQL truncates names to 63
 * bytes.
 */
export const tupleIndexName = (table: string, columns: readonly string[]): string =>
  tupleIndexPrefix(table) + createHash('sha256').update(columns.toSorted().join()).digest('hex').slice(0, 8)

export const sameColumns = (some: readonly string[], others: readonly string[]) =>
  some.length === others.length && some.every((column) => others.includes(column))

const columnsOf = ({ columns }: ResourceTable, tuple: UniqueTuple): ResourceColumn[] =>
  columns.filter((column) => tuple.columns.includes(comparedColumn(column)))

/** Returns true if one of the columns is new and has no default, so that it is null in every row. */
const hasNewColumn = (table: ResourceTable, { types }: ExistingTable, tuple: UniqueTuple): boolean =>
  columnsOf(table, tuple).some(
    (column) => !types.has(column.name) && column.default === undefined && constantFor(table, column) === undefined,
  )

async function missingIndex(tx: Queryable, table: ResourceTable, existing: ExistingTable, tuple: UniqueTuple) {
  const { name } = table
  if (!tuple.columns.every((column) => existing.types.has(column))) {
    const what = `are declared unique together, but have no unique index in ${name}`
    return mismatch(table, tuple.fields, what, 'Declare them as filters first, then as unique.', [])
  }
  const shared = await sharedRows(tx, name, tuple, columnsOf(table, tuple))
  // While the field was used to sort lists, rows without a value had an empty string; an index would treat them as
  // equal.
  const cleared = columnsOf(table, tuple)
    .filter((column) => existing.recorded.get(column.name)?.blank)
    .map((column) => `update "${name}" set "${column.name}_key" = null where "${column.name}" is null`)
  const steps = [...cleared, uniqueTupleStatement(name, tuple)]
  if (shared === 0) {
    const what = `are declared unique together, but have no unique index in ${name}`
    return mismatch(table, tuple.fields, what, 'Create one:', steps)
  }
  const what = `are declared unique together, but ${rowCount(shared)} of ${name} share their values with others`
  return mismatch(table, tuple.fields, what, 'Change those values, then create the index:', steps)
}

/** Returns the number of rows that have the same values in a tuple as another row. */
async function sharedRows(tx: Queryable, table: string, { columns }: UniqueTuple, values: ResourceColumn[]) {
  const present = values.map(({ name }) => sql`${sql.ref(name)} is not null`)
  const keys = columns.map((column) => sql.ref(column))
  const query = sql<{ rows: number | null }>`
    select sum(alike) as rows from (
      select count(*) as alike from ${sql.ref(table)} where ${sql.join(present, sql` and `)}
      group by ${sql.join(keys)} having count(*) > 1
    ) as alike_rows`
  return Number((await query.execute(tx)).rows[0]?.rows ?? 0)
}

function mismatch({ path }: ResourceTable, fields: readonly string[], what: string, advice: string, steps: string[]) {
  const message = `${path}: the fields ${fields.slice(0, -1).join(', ')} and ${fields.at(-1)} ${what}. ${advice}`
  return [message, ...steps.map((step) => `    ${step};`)].join('\n')
}
