import type { ColumnDefinitionBuilder, RawBuilder } from 'kysely'
import type { IdType } from './ids.ts'

/** The type of a cell in a long read. Decimals, instants, dates and JSON are text; booleans are 1 or 0. */
export type CellType = 'integer' | 'number' | 'decimal' | 'string' | 'instant' | 'date' | 'boolean' | 'json' | 'uuid'

/** The target types of `Engine.jsonCell`. */
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
  /** The maximum length in characters; null if the engine enforces none. */
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
 * The values that a column type can store. `numeric` columns can store integers, other numbers, and text that is not a
 * number.
 */
export interface Capacity {
  holds: 'text' | 'integer' | 'number' | 'numeric' | 'uuid' | 'other'
  /** The largest absolute value of an integer, if the column cannot store every 64-bit integer. */
  magnitude?: number
}

/** The measured size of a table or index. On SQLite, `sample` describes the pages that were read. */
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

/** The differences between the database engines, so that other code rarely has to check `name`. */
export interface Engine {
  name: 'sqlite' | 'postgres'
  /** True if transactions commit in the order of their inserts, and so of the generated keys. */
  commitsInOrder: boolean
  /** Column type for integer keys that the engine generates and never reuses. */
  identityType: 'integer'
  identity: (column: ColumnDefinitionBuilder) => ColumnDefinitionBuilder
  /** The SQL needed before `values` in an INSERT that sets a generated `id`. */
  overridingIdentity: RawBuilder<unknown>
  /** Column type for text that both engines compare bytewise, so that they sort it in the same order. */
  keyType: RawBuilder<unknown>
  /**
   * Column type for UUIDs, as `columnsOf` names it. Text must be cast to this type before it is compared with such a
   * column.
   */
  uuidType: 'uuid' | 'text'
  /** The columns that identify rows: `id` and, for UUIDs on SQLite, the row number that the text index uses. */
  idColumns: Readonly<Record<IdType, readonly IdColumn[]>>
  /** The database's current time (not the transaction's start time), in milliseconds since the epoch. */
  now: RawBuilder<number>
  /** Statements to run before a migration: they remove the time limits and let only one process migrate at a time. */
  beforeMigration: readonly string[]
  /**
   * Statements to run after a migration. If `known` returns a row, the planner has statistics, and `gather` refreshes
   * them. Statistics must cover all indexes or none, because the planner prefers indexes without them.
   */
  statistics: { known: RawBuilder<unknown>; gather: readonly string[] }
  /**
   * SQL after a table name in `from` that makes SQLite use this index. Without ANALYZE, SQLite cannot choose between
   * similar indexes. Empty on PostgreSQL, which has statistics.
   */
  indexedBy: (index: string) => RawBuilder<unknown>
  /** The columns of a table with their types; no rows if the table does not exist. */
  columnsOf: (table: string) => RawBuilder<{ name: string; type: string }>
  /** Details about a table's columns, in the order of the columns. */
  detailsOf: (table: string) => RawBuilder<ColumnDetails>
  capacityOf: (type: string) => Capacity
  /** Statements that change the collation of a text column, so that both engines sort it in the same order. */
  sortBytewise: (table: string, column: ColumnDetails) => readonly string[]
  /** The indexes of a table, except indexes on expressions; `columns` is a comma-separated list. */
  indexesOf: (table: string) => RawBuilder<{ name: string; columns: string; unique: boolean | number }>
  /** The single-column foreign keys of a table, and the tables that they reference. */
  foreignKeysOf: (table: string) => RawBuilder<{ column: string; table: string }>
  /** Statements that add, replace or remove the foreign key of an existing column. */
  changeForeignKey: (change: ForeignKeyChange) => readonly string[]
  /** True if a foreign key can be added to an existing column. Otherwise, the column must be replaced by a new one. */
  addsForeignKeys: boolean
  /** Statements that rename a constraint; none if the engine does not use constraint names. */
  renameForeignKey: (table: string, from: string, to: string) => readonly string[]
  /** Statements that make a table append-only: its rows can be inserted and read, but neither updated nor deleted. */
  appendOnly: (table: string) => readonly string[]
  /** Statements that allow deleting rows of an append-only table if `column` is at most the value of `expression`. */
  deletableUpTo: (table: string, column: string, expression: string) => readonly string[]
  /**
   * The elements of a JSON array (given as text), as rows with a column `value`. On both engines, `value ->> 0` reads
   * the first item of an element that is itself an array.
   */
  jsonRows: (json: string) => RawBuilder<{ value: string }>
  /** True if the column's value is one of the ids in a JSON array (text). Uses the column's index. */
  isAmong: (column: RawBuilder<unknown>, json: string, ids: IdType) => RawBuilder<boolean>
  /** Reads a scalar from a JSON object (given as text), at a path of member names, and casts it to a type. */
  jsonCell: (json: RawBuilder<unknown>, path: readonly string[], type: CellCast) => RawBuilder<unknown>
  /** Aggregates an expression over all rows into JSON array text; null or an empty array if there are no rows. */
  jsonArray: (expression: RawBuilder<unknown>) => RawBuilder<string | null>
  /** Converts a row's cells to expressions for the engine's own CSV writer; undefined if it cannot write them. */
  csvFields: (cells: readonly { cell: RawBuilder<unknown>; type: CellType }[]) => RawBuilder<unknown>[] | undefined
  /**
   * Returns SQL for a row as a CSV record, and for the part of its text that must still be checked. Undefined if
   * reading the cells would be as fast.
   */
  csvRecord: (
    cells: readonly { cell: RawBuilder<unknown>; type: CellType }[],
  ) => { record: RawBuilder<unknown>; checked: RawBuilder<unknown> } | undefined
  /** Makes a text expression sort bytewise, as JavaScript sorts ASCII text. */
  bytewise: (term: RawBuilder<unknown>) => RawBuilder<unknown>
  /**
   * The exact sum of an integer column, as text with a decimal point before the last `scale` digits; zero if there are
   * no values. Available in snapshots only.
   */
  exactSum: (column: RawBuilder<unknown>, scale: number) => RawBuilder<unknown>
  /**
   * The average of an integer column, as text with `scale` decimal places, two more than the column has. Rounded half
   * away from zero; null if there are no values. Available in snapshots only.
   */
  exactAverage: (column: RawBuilder<unknown>, scale: number) => RawBuilder<unknown>
  /**
   * Locking clauses to append to a select; the locks last until the transaction ends. `lockFreeRows` skips rows that
   * other transactions have locked; `lockRowsNow` fails with a lock timeout instead of waiting for them.
   */
  lockRows: RawBuilder<unknown>
  lockRowsNow: RawBuilder<unknown>
  lockFreeRows: RawBuilder<unknown>
  /**
   * A clause to append to a select. Until the transaction ends, other transactions can neither delete the rows nor
   * change their keys; they can change other columns.
   */
  lockKeys: RawBuilder<unknown>
  /**
   * A clause to append to a select. Until the transaction ends, other transactions can neither change these rows nor
   * add references to them.
   */
  lockForRemoval: RawBuilder<unknown>
  /**
   * Statements that make writes to a table faster but less durable: after a crash of the database, the table may be
   * empty.
   */
  unlogged: (table: string) => readonly string[]
  /** True for errors caused by a duplicate value in a unique index. */
  isDuplicate: (error: unknown) => boolean
  /** The columns of the violated unique index; empty if the error does not name them. */
  duplicateColumns: (error: unknown) => string[]
  /** True for errors that occur because the database is, for example, full, locked, damaged or unreachable. */
  isUnavailable: (error: unknown) => boolean
  /** Statements that create the prerequisites of text indexes, and the error message if they fail. */
  textSearch: { statements: readonly string[]; errorMessage: string }
  /** An always-true condition that makes scans of this table interruptible, so that time limits can stop them. */
  interruptible: (table: string) => RawBuilder<boolean>
  /** A subquery of bounded cost that measures tables and indexes, and a function that computes sizes from its rows. */
  tableSizes: { query: RawBuilder<MeasuredSize>; sizeOf: (row: MeasuredSize) => { bytes: number; rows: number } }
  /** True for errors that occur because another transaction held a row lock for too long. */
  isLockTimeout: (error: unknown) => boolean
  /** True for deadlocks and serialization failures. Null if the engine runs one write transaction at a time. */
  isRepeatable: ((error: unknown) => boolean) | null
}

/** Returns a property of an engine error; undefined if the error does not have it. */
export const errorField = (error: unknown, name: string): unknown =>
  typeof error === 'object' && error !== null ? (error as Record<string, unknown>)[name] : undefined
