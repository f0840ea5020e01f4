/** How the values of a field are stored; `exact` text is compared byte by byte, an `instant` is fixed-width ISO text. */
export type ColumnKind = 'text' | 'exact' | 'instant' | 'integer' | 'number' | 'boolean' | 'json'

/** One field of a declared resource as a column of its table. */
export interface ResourceColumn {
  /** The SQL name. */
  name: string
  kind: ColumnKind
  required: boolean
  /** Has a companion column `…_key` with the case-folded text (see `caseFold`). */
  folded: boolean
  unique: boolean
  /** Lists are filtered or sorted by it. */
  indexed: boolean
  /** The companion is an empty text instead of null where a row has no value. */
  blank?: boolean
  /** Stored value for rows without one; never set for a unique column. */
  default?: string | number
}

/** The table of a declared resource. */
export interface ResourceTable {
  /** Names the resource in messages. */
  path: string
  name: string
  columns: readonly ResourceColumn[]
  /** The fields that a search covers. */
  search: readonly string[]
}

/** The recorded columns of a declared resource's table. */
export interface ResourceTablesTable {
  name: string
  /** The JSON text of its `ResourceColumn`s. */
  columns: string
}
