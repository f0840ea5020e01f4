import type { ColumnDefinitionBuilder, RawBuilder } from 'kysely'

/** Type of a cell in a long read. Instants, dates and JSON are text; booleans are stored as 1 or 0. */
export type CellType = 'integer' | 'number' | 'string' | 'instant' | 'date' | 'boolean' | 'json'

/** The differences between the two database engines, as data. Only what opens a queue or counters checks the name. */
export interface Engine {
  name: 'sqlite' | 'postgres'
  /** Column type of an integer key that the engine generates and never reuses. */
  identityType: 'integer'
  identity: (column: ColumnDefinitionBuilder) => ColumnDefinitionBuilder
  /** Column type of case-folded text: compares by bytes, so that both engines sort alike. */
  keyType: RawBuilder<unknown>
  /** The database's current time (not the start of the transaction), in milliseconds since the epoch. */
  now: RawBuilder<number>
  /** Statements run first in a migration: they lift its time limits and ensure that one process migrates at a time. */
  beforeMigration: readonly string[]
  /**
   * Run after a migration: `gather` renews the planner's statistics of each index; `known` finds a row if there are any
   * yet. The planner needs statistics for all indexes or none: an index without them would look better than it is.
   */
  statistics: { known: RawBuilder<unknown>; gather: readonly string[] }
  /**
   * Follows a table's name: read the table by this index and no other. SQLite keeps no row counts without ANALYZE and takes
   * any index that looks alike; PostgreSQL chooses by its statistics.
   */
  indexedBy: (index: string) => RawBuilder<unknown>
  /**
   * The columns of a table with their types, and its indexes by their first column. No rows if the table does not exist.
   */
  columnsOf: (table: string) => RawBuilder<{ name: string; type: string }>
  indexesOf: (table: string) => RawBuilder<{ column: string; unique: boolean | number }>
  /** Statements that make a table append-only: its rows can be inserted and read, but neither updated nor deleted. */
  appendOnly: (table: string) => readonly string[]
  /** The elements of a JSON array (given as text) as rows with one column, `value`; `value ->> 0` works on both engines. */
  jsonRows: (json: string) => RawBuilder<{ value: string }>
  /**
   * The values of an expression over all rows, as the text of a JSON array; null or an empty array when there are no rows.
   */
  jsonArray: (expression: RawBuilder<unknown>) => RawBuilder<string | null>
  /** Expressions to pass to the engine's own CSV writer for the cells of a row; undefined where it cannot be used. */
  csvFields: (cells: readonly { cell: RawBuilder<unknown>; type: CellType }[]) => RawBuilder<unknown>[] | undefined
  /** A row as one CSV record, and the text of it that must still be checked; undefined where that is not faster. */
  csvRecord: (
    cells: readonly { cell: RawBuilder<unknown>; type: CellType }[],
  ) => { record: RawBuilder<unknown>; looked: RawBuilder<unknown> } | undefined
  /**
   * Follows a select: locks its rows until the end of the transaction; `lockFreeRows` skips rows that others have locked.
   */
  lockRows: RawBuilder<unknown>
  lockFreeRows: RawBuilder<unknown>
  /** Statements that make a table fast to write; it may be empty after a crash of the database. */
  unlogged: (table: string) => readonly string[]
  /** True for an error caused by a duplicate value in a unique index. */
  isDuplicate: (error: unknown) => boolean
  /** The column with the duplicate value of such an error; undefined when the error does not name it. */
  duplicateColumn: (error: unknown) => string | undefined
  /** True for an error meaning that the database cannot accept work now: full, locked, unreachable. */
  isUnavailable: (error: unknown) => boolean
  /** Statements that text indexes require, and the error message when they cannot be run. */
  textSearch: { statements: readonly string[]; otherwise: string }
  /** A condition that is always true; in a scan of this table it lets the statement end soon after its time limit. */
  interruptible: (table: string) => RawBuilder<boolean>
  /** True for an error meaning that another transaction held a row lock for too long. */
  isLockTimeout: (error: unknown) => boolean
}

/** Returns a property of an engine's error, if it has one. */
export const errorField = (error: unknown, name: string): unknown =>
  typeof error === 'object' && error !== null ? (error as Record<string, unknown>)[name] : undefined
