import type { Compilable } from 'kysely'
import type { Database, ReadOnlyDatabase } from './database.ts'

/** The number of rows of a table, and its size with its indexes. */
export interface TableSize {
  table: string
  rows: number
  bytes: number
}

/** Executes a query; by default, on the connection for reads. */
type Run = <Row>(query: Compilable<Row> & { execute: () => Promise<Row[]> }) => Promise<Row[]>

/**
 * Returns the sizes of all tables, largest first. To bound the cost, the sizes and row counts of large tables are
 * estimates on SQLite, and all row counts are estimates on PostgreSQL.
 */
export async function tableSizes(
  { read, engine }: Pick<ReadOnlyDatabase, 'read' | 'engine'>,
  run: Run = (query) => query.execute(),
): Promise<TableSize[]> {
  const { query, sizeOf } = engine.tableSizes
  const sizes = new Map<string, TableSize>()
  for (const row of await run(read.selectFrom(query.as('measured')).selectAll())) {
    const { bytes, rows } = sizeOf(row)
    const { tableName: table } = row
    const before = sizes.get(table) ?? { table, rows: 0, bytes: 0 }
    sizes.set(table, { table, rows: before.rows + rows, bytes: before.bytes + bytes })
  }
  return [...sizes.values()].toSorted((one, other) => other.bytes - one.bytes)
}

/** Like `tableSizes`, but reads a SQLite file in another thread, so that requests do not wait. */
export const tableSizesInThread = (db: Pick<Database, 'read' | 'engine' | 'scan'>): Promise<TableSize[]> =>
  tableSizes(db, (query) => db.scan(query, { account: 'table sizes' }))
