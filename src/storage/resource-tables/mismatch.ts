import { sql } from 'kysely'
import type { Queryable } from '../database.ts'
import { fieldOf, type ResourceColumn, type ResourceTable } from './resource-columns.ts'

/**
 * Thrown if a table does not match its declaration. The message lists each mismatch with its remedy; nothing was
 * changed.
 */
export class TableMismatch extends Error {
  override name = 'TableMismatch'
  readonly exitCode = 2
}

/**
 * Returns the error message for a difference that only the operator can resolve, with `steps`, the statements to
 * execute.
 */
export const mismatch = (
  { path }: ResourceTable,
  column: Pick<ResourceColumn, 'name' | 'field'>,
  what: string,
  advice: string,
  steps: string[],
): string =>
  [`${path}: the field ${fieldOf(column)} ${what}. ${advice}`, ...steps.map((step) => `    ${step};`)].join('\n')

/** Returns text such as `1 row` or `2 rows`. */
export const rowCount = (rows: number): string => `${rows} ${rows === 1 ? 'row' : 'rows'}`

/** Returns the number of rows that meet a condition. */
export async function countOf(tx: Queryable, table: string, where: ReturnType<typeof sql>): Promise<number> {
  const query = sql<{ count: number }>`select count(*) as count from ${sql.ref(table)} where ${where}`
  return Number((await query.execute(tx)).rows[0]?.count)
}
