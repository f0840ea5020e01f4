import type { Queryable } from '../database.ts'
import type { Engine } from '../engine.ts'
import type { RecordedColumn } from './record.ts'
import type { ExistingTable } from './schema-diff.ts'

/** Reads a table's columns and indexes; `before` contains the columns as recorded. */
export async function readTable(
  tx: Queryable,
  engine: Engine,
  name: string,
  before: readonly RecordedColumn[],
): Promise<ExistingTable> {
  const { rows: columns } = await engine.columnsOf(name).execute(tx)
  const { rows: indexes } = await engine.indexesOf(name).execute(tx)
  const { rows: foreignKeys } = await engine.foreignKeysOf(name).execute(tx)
  const keys = indexes.map(({ name, columns, unique }) => ({ name, columns: columns.split(','), unique }))
  const tuples = keys.filter(({ columns, unique }) => unique && columns.length > 1)
  return {
    types: new Map(columns.map((column) => [column.name, column.type])),
    indexed: new Set(keys.filter((key) => !tuples.includes(key)).map(({ columns }) => columns[0] as string)),
    unique: new Set(keys.flatMap(({ columns, unique }) => (unique && columns.length === 1 ? columns : []))),
    references: new Map(foreignKeys.map(({ column, table }) => [column, table])),
    tuples: new Map(tuples.map(({ name, columns }) => [name, columns])),
    recorded: new Map(before.map((column) => [column.name, column])),
  }
}
