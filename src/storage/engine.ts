import type { ColumnDefinitionBuilder, RawBuilder } from 'kysely'

/** Cell type in a long read. Decimals, instants, dates and JSON are text; booleans are stored as 1 or 0. */
export type CellType = 'integer' | 'number' | 'decimal' | 'string' | 'instant' | 'date' | 'boolean' | 'json'

/** Another foreign key for an existing column. */
export interface ForeignKeyChange {
  table: string
  column: string
  /** The name of the constraint, and whether the column has it already. */
  constraint: string
  exists: boolean
  /** The table to whose ids the column shall refer; null for none. */
  references: string | null
  /** Drop and create the indexes of the column. */
  dropIndexes: readonly string[]
  createIndexes: readonly string[]
}

/** The differences between the two database engines, as data. Only the code that opens queues and counters checks `name`. */
export interface Engine {
  name: 'sqlite' | 'postgres'
  /** Column type for integer keys that the engine generates and never reuses. */
  identityType: 'integer'
  identity: (column: ColumnDefinitionBuilder) => ColumnDefinitionBuilder
  /** Column type for case-folded text, which is compared bytewise so that both engines sort it in the same order. */
  keyType: RawBuilder<unknown>
  /** The database's current time (not the transaction's start time), in milliseconds since the epoch. */
  now: RawBuilder<number>
  /** Statements to run before a migration: they lift the time limits and let only one process migrate at a time. */
  beforeMigration: readonly string[]
  /**
   * Run after a migration: if `known` returns a row, the planner has statistics, and `gather` refreshes them. Either all
   * indexes or none must have statistics, because the planner prefers indexes without them.
   */
  statistics: { known: RawBuilder<unknown>; gather: readonly string[] }
  /**
   * Follows a table name in `from` and forces the use of this index. Without ANALYZE, SQLite has no row counts and cannot
   * tell similar indexes apart; PostgreSQL chooses by its statistics.
   */
  indexedBy: (index: string) => RawBuilder<unknown>
  /** The columns of a table with their types. No rows if the table does not exist. */
  columnsOf: (table: string) => RawBuilder<{ name: string; type: string }>
  /** The indexes of a table, without those on expressions; `columns` are comma-separated. */
  indexesOf: (table: string) => RawBuilder<{ name: string; columns: string; unique: boolean | number }>
  /** The foreign keys of a table that have one column, and the tables that they refer to. */
  foreignKeysOf: (table: string) => RawBuilder<{ column: string; table: string }>
  /** Statements that give an existing column another foreign key, or none. */
  changeForeignKey: (change: ForeignKeyChange) => readonly string[]
  /** Statements that make a table append-only: its rows can be inserted and read, but neither updated nor deleted. */
  appendOnly: (table: string) => readonly string[]
  /** The elements of a JSON array (given as text) as rows with one column, `value`; `value ->> 0` works on both engines. */
  jsonRows: (json: string) => RawBuilder<{ value: string }>
  /** True for an integer among those of a JSON array (given as text); found by the index of the column. */
  isAmong: (column: RawBuilder<unknown>, json: string) => RawBuilder<boolean>
  /** Aggregates an expression over all rows into the text of a JSON array; null or an empty array if there are no rows. */
  jsonArray: (expression: RawBuilder<unknown>) => RawBuilder<string | null>
  /** Expressions that pass the cells of a row to the engine's own CSV writer; undefined if that writer cannot be used. */
  csvFields: (cells: readonly { cell: RawBuilder<unknown>; type: CellType }[]) => RawBuilder<unknown>[] | undefined
  /** A row as one CSV record, and the text in it that must still be checked; undefined if this would not be faster. */
  csvRecord: (
    cells: readonly { cell: RawBuilder<unknown>; type: CellType }[],
  ) => { record: RawBuilder<unknown>; checked: RawBuilder<unknown> } | undefined
  /**
   * Follow a select and lock its rows until the transaction ends; `lockFreeRows` skips rows locked by other transactions.
   */
  lockRows: RawBuilder<unknown>
  lockFreeRows: RawBuilder<unknown>
  /** Follows a select: the rows stay until the end of the transaction, though other columns than the key may change. */
  lockKeys: RawBuilder<unknown>
  /** Follows a select: nobody changes these rows, or adds rows that refer to them, until the end of the transaction. */
  lockForRemoval: RawBuilder<unknown>
  /** Statements that speed up writes to a table, at the risk that it is empty after a database crash. */
  unlogged: (table: string) => readonly string[]
  /** True for errors caused by a duplicate value in a unique index. */
  isDuplicate: (error: unknown) => boolean
  /** The columns of the unique index that has a duplicate; none if the error does not name them. */
  duplicateColumns: (error: unknown) => string[]
  /** True for errors which mean that the database is currently full, locked or unreachable. */
  isUnavailable: (error: unknown) => boolean
  /** Statements that create the prerequisites of text indexes, and the error message if they fail. */
  textSearch: { statements: readonly string[]; errorMessage: string }
  /** A condition that is always true; it makes scans of this table interruptible, so that they stop at their time limit. */
  interruptible: (table: string) => RawBuilder<boolean>
  /** True for errors which mean that another transaction held a row lock for too long. */
  isLockTimeout: (error: unknown) => boolean
}

/** Returns a property of an engine error; undefined if the error does not have it. */
export const errorField = (error: unknown, name: string): unknown =>
  typeof error === 'object' && error !== null ? (error as Record<string, unknown>)[name] : undefined
