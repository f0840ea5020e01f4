/** How the values of a field are stored; `exact` text is compared byte by byte, an `instant` is fixed-width ISO text. */
export type ColumnKind = 'text' | 'exact' | 'instant' | 'integer' | 'number' | 'boolean' | 'json'

/** The column that stores one field of a declared resource. */
export interface ResourceColumn {
  /** The SQL name. */
  name: string
  kind: ColumnKind
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
}

/** The table of a declared resource. */
export interface ResourceTable {
  /** The path of the resource, for error messages. */
  path: string
  name: string
  columns: readonly ResourceColumn[]
  /** The fields that a search covers. */
  search: readonly string[]
}

/** The columns of a declared resource's table, as recorded by the last migration. */
export interface ResourceTablesTable {
  name: string
  /** The JSON text of its `ResourceColumn`s. */
  columns: string
}
