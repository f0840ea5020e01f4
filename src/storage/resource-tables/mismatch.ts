import { sql } from 'kysely'
import type { Queryable } from '../database.ts'
import type { Engine } from '../engine.ts'
import type { IdType } from '../ids.ts'
import { readRecord } from './record.ts'
import { fieldOf, idsOf, type ResourceColumn, type ResourceTable } from './resource-columns.ts'

/** Thrown if a table cannot be made to match its declaration. The message lists the mismatches and their remedies. */
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

/**
 * Throws `TableMismatch` if a table exists whose ids have a type other than the declared one. `adopt` checks the ids of
 * tables that the service did not create.
 */
export async function refuseOtherIds(tx: Queryable, engine: Engine, tables: readonly ResourceTable[]): Promise<void> {
  const changed: string[] = []
  for (const table of tables) {
    const { path, name } = table
    const { rows } = await engine.columnsOf(name).execute(tx)
    const type = rows.find((column) => column.name === 'id')?.type
    const ids = idsOf(table)
    const expected = engine.idColumns[ids].find((column) => column.name === 'id')?.type
    if (type === undefined || type === expected || (await isAdopted(tx, table))) continue
    const [declared, stored] = ids === 'uuid' ? ['UUIDs', 'integers'] : ['integers', 'UUIDs']
    const what = `ids are declared as ${declared}, but the rows of ${name} have ${stored}`
    changed.push(`${path}: ${what}. The type of ids cannot change: declare ids: '${other[ids]}', or another path`)
  }
  if (changed.length > 0) throw new TableMismatch(changed.join('\n'))
}

async function isAdopted(tx: Queryable, { name, overlay }: ResourceTable): Promise<boolean> {
  const record = await readRecord(tx, name)
  return record?.isAdopted ?? overlay !== undefined
}

const other: Readonly<Record<IdType, IdType>> = { integer: 'uuid', uuid: 'integer' }

/** Returns text such as `1 row` or `2 rows`. */
export const rowCount = (rows: number): string => `${rows} ${rows === 1 ? 'row' : 'rows'}`

/** Returns the number of rows that meet a condition. */
export async function countRows(tx: Queryable, table: string, where: ReturnType<typeof sql>): Promise<number> {
  const query = sql<{ count: number }>`select count(*) as count from ${sql.ref(table)} where ${where}`
  return Number((await query.execute(tx)).rows[0]?.count)
}
