import type { Generated } from 'kysely'
import type { IdType } from '../ids.ts'

/** The SQL type of a column; a `key` is text that is sorted bytewise, and SQLite stores a `uuid` as text. */
export type SqlType = 'text' | 'key' | 'bigint' | 'double precision' | 'smallint' | 'uuid'

/** The column that stores one field of a declared resource. */
export interface ResourceColumn {
  /** The column name in the database. */
  name: string
  /** The field, if the column's name is not the field's name in snake case. */
  field?: string
  /** The declared column type; recorded, so that a later start detects a change. */
  kind: string
  sql: SqlType
  required: boolean
  /** True if a companion column `…_key` contains the case-folded text (see `caseFold`). */
  folded: boolean
  unique: boolean
  /** True if lists can be filtered or sorted by the field. */
  indexed: boolean
  /** True if the exact text is indexed as well, for access rules that compare it. */
  exact?: boolean
  /** True if the companion column contains an empty string instead of null in rows without a value. */
  blank?: boolean
  /** The value stored in rows that have no value; never set for a unique column. */
  default?: string | number
  /** The table whose ids the column references with a foreign key. */
  references?: string
  /** Set for sums and counts that the service maintains. */
  total?: TotalSource
  /** The names of the unique multi-column indexes that include this column. */
  together?: readonly string[]
  /** True if the column existed before the service used its table. */
  adopted?: true
}

/** The rows that a sum or count covers: all rows of `table` that refer to the row with the total. */
export interface TotalSource {
  table: string
  /** The column that refers to the row with the total. */
  reference: string
  /** The column that is summed; null for a count. */
  column: string | null
  /** Largest absolute value of the sum or count. */
  limit: string
}

/** A value as stored in a column; decimals are bigints. */
export type StoredCell = string | number | bigint | null

/** A stored row, by field. Each value has the kind that was recorded for its column. */
export type StoredCells = Readonly<Record<string, { kind: string; value: unknown }>>

/** Thrown for a row without a valid value for a field; the message states the reason. */
export class InvalidCell extends Error {}

/** How existing rows are migrated when the declaration changes, by field. */
export interface SchemaChanges {
  /** The earlier names of fields. */
  renamed: Readonly<Record<string, string>>
  /**
   * The values of new or newly required fields: a constant, or a function of the row, which throws `InvalidCell` if
   * there is no valid value.
   */
  fill: Readonly<Record<string, { constant: string | number } | { compute: (row: StoredCells) => StoredCell }>>
  /**
   * Functions that compute new values from values of another kind. They throw `InvalidCell` if there is no valid value.
   */
  convert: Readonly<Record<string, (value: unknown, kind: string) => StoredCell>>
  /** The source text of the functions; part of the digest that identifies an interrupted change. */
  source: string
}

/** Fields that must be unique in combination. */
export interface UniqueTuple {
  index: string
  fields: readonly string[]
  /** The columns of the index, as returned by `comparedColumn`. */
  columns: readonly string[]
}

/** What the options `table` and `columns` declare about an existing table. */
export interface Overlay {
  /** The columns that the declaration names, by field. */
  columns: Readonly<Record<string, string>>
  /**
   * The longest text and the largest absolute integer that the column of a field must hold; `isTime` is true for dates
   * and instants.
   */
  limits: Readonly<Record<string, { length: number; magnitude: number; isTime: boolean }>>
  /** Returns an error for each invalid value in a stored row. Decimals must be passed as text. */
  check: (cells: Readonly<Record<string, unknown>>) => readonly { field: string; message: string }[]
}

/** The table for a declared resource. */
export interface ResourceTable {
  /** The resource's path, for error messages. */
  path: string
  name: string
  /** The type of the ids; default: integers. */
  ids?: IdType
  columns: readonly ResourceColumn[]
  tuples?: readonly UniqueTuple[]
  changes?: SchemaChanges
  overlay?: Overlay
  /** The columns that a search covers, each with a case-folded companion. */
  search: readonly string[]
}

/** Returns the type of a table's ids. */
export const idsOf = ({ ids = 'integer' }: Pick<ResourceTable, 'ids'>): IdType => ids

/** Returns the field stored in a column. */
export const fieldOf = ({ name, field }: Pick<ResourceColumn, 'name' | 'field'>): string =>
  field ?? name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())

/** The columns of a declared resource's table, as recorded by the last migration. */
export interface ResourceTablesTable {
  name: string
  /** The table's `ResourceColumn`s as JSON text. */
  columns: string
  /** 1 if the table existed before a resource was mapped to it. */
  adopted: Generated<number>
}

/** A change to a resource table. `finishedAt` is null while a change that runs in batches is unfinished. */
export interface SchemaChangesTable {
  startedAt: string
  finishedAt: string | null
  tableName: string
  /** The order of changes that started at the same time. */
  position: number
  /** The column that is filled or converted; null for all other changes. */
  columnName: string | null
  /** A statement, or an SQL comment about changed rows. */
  change: string
  /** How many rows were written. */
  rows: number
  /** The id of the last row that has been written: an integer, or a UUID in `lastUuid`. */
  lastId: number
  lastUuid: string | null
  /** The version of the definition, or its digest if it has none. */
  version: string
  /** A digest of the declared tables and of the functions in them. */
  digest: string
}
