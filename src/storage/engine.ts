import type { ColumnDefinitionBuilder, RawBuilder } from 'kysely'
import type { IdType } from './ids.ts'

/** Cell type in a long read. Decimals, instants, dates and JSON are text; booleans are stored as 1 or 0. */
export type CellType = 'integer' | 'number' | 'decimal' | 'string' | 'instant' | 'date' | 'boolean' | 'json' | 'uuid'

/** The types to which `Engine.jsonCell` casts. */
export type CellCast = 'text' | 'integer' | 'number' | 'uuid'

/** A column that identifies rows. */
export interface IdColumn {
  name: string
  type: 'integer' | 'uuid' | 'text'
  define: (column: ColumnDefinitionBuilder) => ColumnDefinitionBuilder
}

/** A column of a table that the service did not create. */
export interface ColumnDetails {
  name: string
  /** The declared type in lower case. */
  type: string
  /** The largest number of characters; null if the engine enforces none. */
  length: number | null
  isRequired: boolean | number
  hasDefault: boolean | number
  /** True if the engine computes the value, so that it cannot be written. */
  isGenerated: boolean | number
  /** True if the column alone is the primary key and the engine generates integers for it. */
  isIdentity: boolean | number
  /** True if text is compared bytewise. */
  isBytewise: boolean | number
}

/**
 * The values that a column of this type can store. A `numeric` column stores integers, other numbers, and text that is
 * not a number.
 */
export interface Capacity {
  holds: 'text' | 'integer' | 'number' | 'numeric' | 'uuid' | 'other'
  /** The largest absolute value of an integer, if the column cannot store every 64-bit integer. */
  magnitude?: number
}

/** The size of a table with its indexes, or of a part. `sample` describes how much of it was measured. */
export interface MeasuredSize {
  tableName: string
  bytes: number
  /** The number of rows of a table; 0 for an index. */
  rows: number
  sample: string | null
}

/** A change to the foreign key of an existing column. */
export interface ForeignKeyChange {
  table: string
  column: string
  /** The name of the constraint, and whether the column already has it. */
  constraint: string
  exists: boolean
  /** The table whose ids the column will reference; null to remove the foreign key. */
  references: string | null
  /** The type of the column, from `columnsOf`. */
  type: string
  /** Statements that drop and recreate the column's indexes. */
  dropIndexes: readonly string[]
  createIndexes: readonly string[]
}

/** The differences between the two database engines, as data. Only the code that opens queues and counters checks `name`. */
export interface Engine {
  name: 'sqlite' | 'postgres'
  /** Column type for integer keys that the engine generates and never reuses. */
  identityType: 'integer'
  identity: (column: ColumnDefinitionBuilder) => ColumnDefinitionBuilder
  /** Stands between the columns and the values of an INSERT that sets a generated `id`. */
  overridingIdentity: RawBuilder<unknown>
  /** Column type for case-folded text, which is compared bytewise so that both engines sort it in the same order. */
  keyType: RawBuilder<unknown>
  /** Column type for UUIDs, which `columnsOf` returns too. Text is compared with such a column after a cast to this type. */
  uuidType: 'uuid' | 'text'
  /** The columns of a table that identify its rows: `id`, and on SQLite a number by which the text index finds rows. */
  idColumns: Readonly<Record<IdType, readonly IdColumn[]>>
  /** The database's current time (not the transaction's start time), in milliseconds since the epoch. */
  now: RawBuilder<number>
  /** Statements to run before a migration: they remove the time limits and let only one process migrate at a time. */
  beforeMigration: readonly string[]
  /**
   * Run after a migration: if `known` returns a row, the planner has statistics, and `gather` refreshes them. Either all
   * indexes or none must have statistics, because the planner prefers indexes without statistics.
   */
  statistics: { known: RawBuilder<unknown>; gather: readonly string[] }
  /**
   * Follows a table name in `from` and forces the use of this index. Without ANALYZE, SQLite has no row counts and
   * cannot choose between similar indexes; PostgreSQL uses its statistics.
   */
  indexedBy: (index: string) => RawBuilder<unknown>
  /** The columns of a table with their types; no rows if the table does not exist. */
  columnsOf: (table: string) => RawBuilder<{ name: string; type: string }>
  /** The columns of a table in detail, in their order. */
  detailsOf: (table: string) => RawBuilder<ColumnDetails>
  capacityOf: (type: string) => Capacity
  /** Statements that change the collation of a text column, so that both engines sort it in the same order. */
  sortBytewise: (table: string, column: ColumnDetails) => readonly string[]
  /** The indexes of a table, except indexes on expressions; `columns` is a comma-separated list. */
  indexesOf: (table: string) => RawBuilder<{ name: string; columns: string; unique: boolean | number }>
  /** The single-column foreign keys of a table, and the tables that they reference. */
  foreignKeysOf: (table: string) => RawBuilder<{ column: string; table: string }>
  /** Statements that change or remove the foreign key of an existing column. */
  changeForeignKey: (change: ForeignKeyChange) => readonly string[]
  /** True if a foreign key can be added to an existing column. Otherwise, the column must be replaced by a new one. */
  addsForeignKeys: boolean
  /** Statements that rename a constraint; none if the engine does not use the names of constraints. */
  renameForeignKey: (table: string, from: string, to: string) => readonly string[]
  /** Statements that make a table append-only: its rows can be inserted and read, but neither updated nor deleted. */
  appendOnly: (table: string) => readonly string[]
  /**
   * Statements that change an append-only table: rows whose column is at most the value of an expression can be deleted.
   */
  deletableUpTo: (table: string, column: string, expression: string) => readonly string[]
  /**
   * The elements of a JSON array (given as text) as rows with one column, `value`; `value ->> 0` works on both engines.
   */
  jsonRows: (json: string) => RawBuilder<{ value: string }>
  /**
   * True if the column's value is one of the ids in a JSON array (given as text). Uses the column's index.
   */
  isAmong: (column: RawBuilder<unknown>, json: string, ids: IdType) => RawBuilder<boolean>
  /** A scalar member of a JSON object (given as text), at a path of member names, cast to a type. */
  jsonCell: (json: RawBuilder<unknown>, path: readonly string[], type: CellCast) => RawBuilder<unknown>
  /** Aggregates an expression over all rows into the text of a JSON array; null or an empty array if there are no rows. */
  jsonArray: (expression: RawBuilder<unknown>) => RawBuilder<string | null>
  /**
   * Expressions that pass the cells of a row to the engine's own CSV writer; undefined if that writer cannot be used.
   */
  csvFields: (cells: readonly { cell: RawBuilder<unknown>; type: CellType }[]) => RawBuilder<unknown>[] | undefined
  /**
   * A row as a CSV record, and the part of its text that must still be checked; undefined if this would not be faster
   * than reading cells.
   */
  csvRecord: (
    cells: readonly { cell: RawBuilder<unknown>; type: CellType }[],
  ) => { record: RawBuilder<unknown>; checked: RawBuilder<unknown> } | undefined
  /** Text that is sorted bytewise, as in JavaScript for ASCII; `term` is an expression. */
  bytewise: (term: RawBuilder<unknown>) => RawBuilder<unknown>
  /**
   * The sum of an integer column, exact at any size, as text with a decimal point before the last `scale` digits; zero for no
   * values. Available in snapshots only.
   */
  exactSum: (column: RawBuilder<unknown>, scale: number) => RawBuilder<unknown>
  /**
   * The average of an integer column as text with `scale` decimal places, two of which the column does not have; rounded
   * half away from zero, and null for no values. Available in snapshots only.
   */
  exactAverage: (column: RawBuilder<unknown>, scale: number) => RawBuilder<unknown>
  /**
   * Locking clauses that follow a select; the locks last until the transaction ends. `lockFreeRows` skips rows that
   * other transactions have locked.
   */
  lockRows: RawBuilder<unknown>
  lockFreeRows: RawBuilder<unknown>
  /**
   * Follows a select. Until the transaction ends, the rows cannot be deleted and their keys cannot change; other columns
   * can.
   */
  lockKeys: RawBuilder<unknown>
  /** Follows a select. Until the transaction ends, no one can change these rows or add rows that reference them. */
  lockForRemoval: RawBuilder<unknown>
  /** Statements that speed up writes to a table; after a database crash, the table may be empty. */
  unlogged: (table: string) => readonly string[]
  /** True for errors caused by a duplicate value in a unique index. */
  isDuplicate: (error: unknown) => boolean
  /** The columns of the unique index that has a duplicate; empty if the error does not name them. */
  duplicateColumns: (error: unknown) => string[]
  /** True for errors that mean that the database is currently full, locked or unreachable. */
  isUnavailable: (error: unknown) => boolean
  /** Statements that create the prerequisites of text indexes, and the error message if they fail. */
  textSearch: { statements: readonly string[]; errorMessage: string }
  /**
   * A condition that is always true. It makes scans of this table interruptible, so that they stop at their time limit.
   */
  interruptible: (table: string) => RawBuilder<boolean>
  /** A subquery that measures tables and indexes at a bounded cost, and the size that one of its rows means. */
  tableSizes: { query: RawBuilder<MeasuredSize>; sizeOf: (row: MeasuredSize) => { bytes: number; rows: number } }
  /** True for errors that mean that another transaction held a row lock for too long. */
  isLockTimeout: (error: unknown) => boolean
}

/** Returns a property of an engine error; undefined if the error does not have it. */
export const errorField = (error: unknown, name: string): unknown =>
  typeof error === 'object' && error !== null ? (error as Record<string, unknown>)[name] : undefined
