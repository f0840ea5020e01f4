import type { Compilable } from 'kysely'
import type { Database, ReadOnlyDatabase } from './database.ts'

/** The size of a table with its indexes. */
export interface TableSize {
  table: string
  bytes: number
}

/** Executes a query; the default is to execute it on the connection for reads. */
type Run = <Row>(query: Compilable<Row> & { execute: () => Promise<Row[]> }) => Promise<Row[]>

/** Returns the sizes of all tables, largest first. The cost is bounded: on SQLite, sizes of large tables are estimates. */
export async function tableSizes(
  { read, engine }: Pick<ReadOnlyDatabase, 'read' | 'engine'>,
  run: Run = (query) => query.execute(),
): Promise<TableSize[]> {
  const { query, bytesOf } = engine.tableSizes
  const sizes = new Map<string, number>()
  for (const row of await run(read.selectFrom(query.as('measured')).selectAll())) {
    sizes.set(row.tableName, (sizes.get(row.tableName) ?? 0) + bytesOf(row))
  }
  return [...sizes].map(([table, bytes]) => ({ table, bytes })).toSorted((one, other) => other.bytes - one.bytes)
}

/** Like `tableSizes`, but reads a SQLite file in another thread, so that requests do not wait. */
export const tableSizesAside = (db: Pick<Database, 'read' | 'engine' | 'scan'>): Promise<TableSize[]> =>
  tableSizes(db, (query) => db.scan(query, { account: 'table sizes' }))
