import type { ColumnDefinitionBuilder, RawBuilder } from 'kysely'

/** Type of a cell in a long read. Decimals, instants, dates and JSON are text; booleans are stored as 1 or 0. */
export type CellType = 'integer' | 'number' | 'decimal' | 'string' | 'instant' | 'date' | 'boolean' | 'json'

/** The differences between the two database engines, as data. Only code that opens a queue or counters checks `name`. */
export interface Engine {
  name: 'sqlite' | 'postgres'
  /** Column type of an integer key that the engine generates and never reuses. */
  identityType: 'integer'
  identity: (column: ColumnDefinitionBuilder) => ColumnDefinitionBuilder
  /** Column type of case-folded text; compared by bytes, so that both engines sort alike. */
  keyType: RawBuilder<unknown>
  /** The database's current time (not the start of the transaction), in milliseconds since the epoch. */
  now: RawBuilder<number>
  /** Statements that start a migration: they lift the time limits, and let only one process migrate at a time. */
  beforeMigration: readonly string[]
  /**
   * Run after a migration: `gather` refreshes the planner's statistics; `known` returns a row if there are statistics
   * already. All indexes need them or none: the planner would prefer an index without statistics.
   */
  statistics: { known: RawBuilder<unknown>; gather: readonly string[] }
  /**
   * Goes after the name of a table in `from`: reads the table by this index only. SQLite keeps no row counts without
   * ANALYZE and takes any index that looks alike; PostgreSQL chooses by its statistics.
   */
  indexedBy: (index: string) => RawBuilder<unknown>
  /** The columns of a table with their types, and its indexes by their first column. No rows if the table does not exist. */
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
  /** The cells of a row as expressions for the engine's own CSV writer; undefined if it cannot be used. */
  csvFields: (cells: readonly { cell: RawBuilder<unknown>; type: CellType }[]) => RawBuilder<unknown>[] | undefined
  /** A row as one CSV record, and its text that must still be checked; undefined if that is not faster. */
  csvRecord: (
    cells: readonly { cell: RawBuilder<unknown>; type: CellType }[],
  ) => { record: RawBuilder<unknown>; checked: RawBuilder<unknown> } | undefined
  /**
   * Follows a select: locks its rows until the end of the transaction; `lockFreeRows` skips rows that others have locked.
   */
  lockRows: RawBuilder<unknown>
  lockFreeRows: RawBuilder<unknown>
  /** Statements that speed up writes to a table, which may then be empty after a crash of the database. */
  unlogged: (table: string) => readonly string[]
  /** True for an error caused by a duplicate value in a unique index. */
  isDuplicate: (error: unknown) => boolean
  /** The column whose value is a duplicate; undefined if the error does not name it. */
  duplicateColumn: (error: unknown) => string | undefined
  /** True for an error that means the database cannot work now: it is full, locked or unreachable. */
  isUnavailable: (error: unknown) => boolean
  /** Statements that set up what text indexes need, and the error message if they fail. */
  textSearch: { statements: readonly string[]; errorMessage: string }
  /** A condition that is always true. In a scan of this table it lets the statement be stopped at its time limit. */
  interruptible: (table: string) => RawBuilder<boolean>
  /** True for an error that means another transaction held a row lock for too long. */
  isLockTimeout: (error: unknown) => boolean
}

/** A property of an engine's error; undefined if it has none. */
export const errorField = (error: unknown, name: string): unknown =>
  typeof error === 'object' && error !== null ? (error as Record<string, unknown>)[name] : undefined
