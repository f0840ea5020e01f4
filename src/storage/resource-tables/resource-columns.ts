/** The SQL type of a column, the same on both engines; a `key` is text that sorts by its bytes. */
export type SqlType = 'text' | 'key' | 'bigint' | 'double precision' | 'smallint'

/** The column that stores one field of a declared resource. */
export interface ResourceColumn {
  /** The SQL name. */
  name: string
  /** The column type as declared; recorded, so that a later start detects a change. */
  kind: string
  sql: SqlType
  required: boolean
  /** True if a companion column `…_key` holds the case-folded text (see `caseFold`). */
  folded: boolean
  unique: boolean
  /** True if lists can be filtered or sorted by the field. */
  indexed: boolean
  /** True if the companion column holds an empty string instead of null in rows without a value. */
  blank?: boolean
  /** The value stored in rows that have none; never set for a unique column. */
  default?: string | number
  /** The table to whose ids the values refer: a foreign key. */
  references?: string
  /** The names of the unique indexes over several columns that include this one. */
  together?: readonly string[]
}

/** Fields whose values are unique together. */
export interface UniqueTuple {
  /** The name of its index. */
  index: string
  fields: readonly string[]
  /** The columns of its index: those that `comparedColumn` returns. */
  columns: readonly string[]
}

/** The table of a declared resource. */
export interface ResourceTable {
  /** The path of the resource, for error messages. */
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
  /** The JSON text of its `ResourceColumn`s. */
  columns: string
}
