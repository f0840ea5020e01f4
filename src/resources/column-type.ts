import type { TSchema } from 'typebox'
import type { CellType } from '../storage/engine.ts'
import type { SqlType } from '../storage/resource-tables/resource-columns.ts'
import type { Codec } from '../storage/rows/column-codec.ts'

/** The parts of a JSON Schema that determine how its values are stored. */
export interface Shape {
  type?: unknown
  format?: string
  enum?: unknown[]
  const?: unknown
  anyOf?: Shape[]
  pattern?: string
  minimum?: number
  maximum?: number
  $defs?: { decimal?: object }
  '~reference'?: unknown
  '~file'?: unknown
}

/** The declaration options that list fields. */
export type FieldList = 'filters' | 'ranges' | 'search' | 'sorts' | 'unique'

/** How the values of a field are stored, queried and reported. */
export interface ColumnType {
  /**
   * Returns true if this type stores the values of a schema; `choices` come from `enum` or `const`. The first matching
   * type is used.
   */
  stores: (shape: Shape, choices: readonly unknown[] | undefined) => boolean
  sql: SqlType
  /** Converts values to and from their stored form, if that differs from the JSON value. */
  codec?: Codec | ((schema: TSchema) => Codec)
  /** Returns the type's name in the database, if the stored form depends on the schema; by default, the type's key. */
  recordedAs?: (schema: TSchema) => string
  /** Normalizes a value before it is stored. */
  normalize?: (value: unknown) => unknown
  /** Restricts a schema to values that both engines can store. */
  storable?: (schema: TSchema) => TSchema
  /** True if values are compared without regard to case and Unicode form, in a companion column. */
  folded?: true
  /** The options that can list fields of this type. */
  lists: readonly FieldList[]
  /**
   * Returns the naming scheme of range parameters: `minX` and `maxX` (numeric), or `xAfter` and `xBefore`
   * (chronological); undefined if the values have no order.
   */
  range?: (shape: Shape) => 'numeric' | 'chronological' | undefined
  /** Returns the maximum length of values in an index; by default, there is no limit. */
  maxIndexed?: (shape: Shape) => number
  /**
   * Returns the schema of the query parameter for a filter or a bound. `parse` converts its text to the stored form of
   * the value, or throws INVALID_INPUT.
   */
  parameter: (description: string, schema: TSchema) => TSchema
  parse: (name: string, text: string, schema: TSchema) => string | number
  /** The type of the field's cells in reports. */
  cell: CellType
}
