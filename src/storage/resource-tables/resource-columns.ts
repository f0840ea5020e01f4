/** The SQL type of a column, the same on both engines; a `key` is text that is sorted bytewise. */
export type SqlType = 'text' | 'key' | 'bigint' | 'double precision' | 'smallint'

/** The column that stores one field of a declared resource. */
export interface ResourceColumn {
  /** The SQL name. */
  name: string
  /** The declared column type; recorded, so that a later start detects a change. */
  kind: string
  sql: SqlType
  required: boolean
  /** True if a companion column `…_key` contains the case-folded text (see `caseFold`). */
  folded: boolean
  unique: boolean
  /** True if lists can be filtered or sorted by the field. */
  indexed: boolean
  /** True if the companion column contains an empty string instead of null in rows without a value. */
  blank?: boolean
  /** The value stored in rows that have no value; never set for a unique column. */
  default?: string | number
  /** The table whose ids the column references with a foreign key. */
  references?: string
  /** Set for a sum or count that the service maintains. */
  total?: TotalSource
  /** The names of the unique multi-column indexes that include this column. */
  together?: readonly string[]
}

/** The rows that a sum or count covers: those of a table that refer to the row. */
export interface TotalSource {
  table: string
  /** The column that refers to the row. */
  reference: string
  /** The column that is summed; null for a count. */
  column: string | null
  /** The largest absolute value. */
  limit: string
}

/** Fields that must be unique in combination. */
export interface UniqueTuple {
  /** The name of the index. */
  index: string
  fields: readonly string[]
  /** The columns of the index, as returned by `comparedColumn`. */
  columns: readonly string[]
}

/** The table for a declared resource. */
export interface ResourceTable {
  /** The resource's path, for error messages. */
  path: string
  name: string
  columns: readonly ResourceColumn[]
  tuples?: readonly UniqueTuple[]
  /** The fields that a search covers. */
  search: readonly string[]
}

/** The columns of a declared resource's table, as recorded by the last migration. */
export interface ResourceTablesTable {
  name: string
  /** The table's `ResourceColumn`s as JSON text. */
  columns: string
}
