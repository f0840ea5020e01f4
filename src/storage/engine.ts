import type { ColumnDefinitionBuilder, RawBuilder } from 'kysely'

/** What a cell of a long read is: a number, or text (instants, days and JSON are text too), or a truth, which tables keep as 1 or 0. */
export type CellType = 'integer' | 'number' | 'string' | 'instant' | 'date' | 'boolean' | 'json'

/** Every difference between the two database engines, as data. Callers never ask which engine they run on. */
export interface Engine {
  name: 'sqlite' | 'postgres'
  /** Column type of an integer key that the engine assigns and never gives out twice. */
  identityType: 'integer'
  identity: (column: ColumnDefinitionBuilder) => ColumnDefinitionBuilder
  /** Column type of folded text: compares by bytes, so that both engines sort alike. */
  keyType: RawBuilder<unknown>
  /** The database's clock, in milliseconds since the epoch, whenever the transaction began. */
  now: RawBuilder<number>
  /** Run first by a migration: no limits on its time, and one process at a time. */
  beforeMigration: readonly string[]
  /**
   * After a migration: the statements that gather anew what the planner knows of each index, and a query that finds a row
   * where it knows something. It must know all of them or none: an index it knows nothing of would look better than it is.
   */
  statistics: { known: RawBuilder<unknown>; gather: readonly string[] }
  /**
   * Behind the name of a table: read it by this index and no other. SQLite, which counts no rows by itself, takes any that
   * looks alike; PostgreSQL chooses by what it counted.
   */
  indexedBy: (index: string) => RawBuilder<unknown>
  /** The columns of a table with their types, and its indexes by their first column. No rows without the table. */
  columnsOf: (table: string) => RawBuilder<{ name: string; type: string }>
  indexesOf: (table: string) => RawBuilder<{ column: string; unique: boolean | number }>
  /** Statements after which rows of a table can be added and read, but neither changed nor removed. */
  appendOnly: (table: string) => readonly string[]
  /** The elements of a JSON array, given as text, as rows whose one column is `value`; `value ->> 0` reads on both. */
  jsonRows: (json: string) => RawBuilder<{ value: string }>
  /** The values of an expression over all rows, as the text of a JSON array; null, or an empty one, without rows. */
  jsonArray: (expression: RawBuilder<unknown>) => RawBuilder<string | null>
  /** What the engine's own writer of CSV is to be given for the cells of a row; undefined where it would not do. */
  csvFields: (cells: readonly { cell: RawBuilder<unknown>; type: CellType }[]) => RawBuilder<unknown>[] | undefined
  /** A row as a record of CSV in one text, and what of it is still to be looked at; undefined where that is no faster. */
  csvRecord: (
    cells: readonly { cell: RawBuilder<unknown>; type: CellType }[],
  ) => { record: RawBuilder<unknown>; looked: RawBuilder<unknown> } | undefined
  /** Behind a select: keeps others from changing its rows until the end of the transaction; `free` passes over held ones. */
  lockRows: RawBuilder<unknown>
  lockFreeRows: RawBuilder<unknown>
  /** Statements after which a table is quick to write and may be empty after a crash of the database. */
  unlogged: (table: string) => readonly string[]
  /** True when an error says that a unique index already holds the value. */
  isDuplicate: (error: unknown) => boolean
  /** The column whose value another row has already, of such an error; undefined when it does not say. */
  duplicateColumn: (error: unknown) => string | undefined
  /** True when an error says that the store cannot take work now: full, locked, unreachable. */
  isUnavailable: (error: unknown) => boolean
  /** Statements that the indexes of text need to have been run, and what to do where they cannot be. */
  textSearch: { statements: readonly string[]; otherwise: string }
  /** A condition that always holds, of a scan of this table: with it the statement ends soon after its time limit. */
  interruptible: (table: string) => RawBuilder<boolean>
  /** True when an error says that another transaction held a row for too long. */
  isLockTimeout: (error: unknown) => boolean
}

/** A member of an error of the engine, if there is one. */
export const errorField = (error: unknown, name: string): unknown =>
  typeof error === 'object' && error !== null ? (error as Record<string, unknown>)[name] : undefined
