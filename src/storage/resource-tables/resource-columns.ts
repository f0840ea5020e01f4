/** How the values of a field are kept; `exact` text is compared as it is, an `instant` is fixed-width ISO text. */
export type ColumnKind = 'text' | 'exact' | 'instant' | 'integer' | 'number' | 'boolean' | 'json'

/** One field of a declared resource as a column of its table. */
export interface ResourceColumn {
  /** The SQL name. */
  name: string
  kind: ColumnKind
  required: boolean
  /** Has a companion `…_key` with the folded text (see `fold`). */
  folded: boolean
  unique: boolean
  /** Lists are filtered or sorted by it. */
  indexed: boolean
  /** Its companion is an empty text, and not null, where a row has no value. */
  blank?: boolean
  /** What rows without a value are given, as the column has it; never of a unique column. */
  default?: string | number
}

/** The table of a declared resource. */
export interface ResourceTable {
  /** Names the resource in messages. */
  path: string
  name: string
  columns: readonly ResourceColumn[]
  /** The fields that a search looks into. */
  search: readonly string[]
}

/** What the table of a declared resource was last brought in line with. */
export interface ResourceTablesTable {
  name: string
  /** The JSON text of its `ResourceColumn`s. */
  columns: string
}
