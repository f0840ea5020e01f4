import type { Queryable } from '../database.ts'
import type { Engine } from '../engine.ts'
import { comparedColumn } from './ddl.ts'
import type { RecordedColumn } from './record.ts'
import type { ResourceColumn } from './resource-columns.ts'

/** The existing columns and indexes of a table. */
export interface ExistingTable {
  /** SQL type by column name. */
  types: ReadonlyMap<string, string>
  /** The first columns of all indexes except unique multi-column indexes. */
  indexed: ReadonlySet<string>
  /** Columns that have a unique index of their own. */
  unique: ReadonlySet<string>
  /** The referenced tables, by column. */
  references: ReadonlyMap<string, string>
  /** The columns of each unique multi-column index, by index name. */
  tuples: ReadonlyMap<string, readonly string[]>
  recorded: ReadonlyMap<string, RecordedColumn>
}

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

/** Returns the names of the unique multi-column indexes that include a column. */
export const tuplesWith = ({ tuples }: ExistingTable, column: Pick<ResourceColumn, 'name' | 'folded'>): string[] =>
  [...tuples].filter(([, columns]) => columns.includes(comparedColumn(column))).map(([index]) => index)

/** Returns the properties of an existing column that `renameColumnStatements` needs. */
export const indexedAs = (existing: ExistingTable, column: Pick<ResourceColumn, 'name' | 'folded'>) => ({
  tuples: tuplesWith(existing, column),
  type: existing.types.get(column.name),
})

/** Returns true if an index other than a unique multi-column index starts with the column. */
export const hasIndex = ({ indexed, unique }: ExistingTable, column: string): boolean =>
  indexed.has(column) || unique.has(column)
