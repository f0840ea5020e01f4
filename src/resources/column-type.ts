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
}

/** The lists of fields in a declaration. */
export type FieldList = 'filters' | 'ranges' | 'search' | 'sorts' | 'unique'

/** How the values of a field are stored, queried and reported. */
export interface ColumnType {
  /** True if it stores the values of a schema; `choices` come from `enum` or `const`. The first type that matches is used. */
  stores: (shape: Shape, choices: readonly unknown[] | undefined) => boolean
  sql: SqlType
  /** Converts values to and from their stored form, if that differs from the JSON value. */
  codec?: Codec | ((schema: TSchema) => Codec)
  /** The recorded name of a type whose stored values depend on the schema; default: its key. */
  recordedAs?: (schema: TSchema) => string
  /** Normalizes a value before it is stored. */
  normalize?: (value: unknown) => unknown
  /** Restricts a schema to values that both engines can store. */
  storable?: (schema: TSchema) => TSchema
  /** True if values are compared without regard to case and Unicode form, in a companion column. */
  folded?: true
  /** The lists that can include such a field. */
  lists: readonly FieldList[]
  /** The query parameters of a range: `minX` and `maxX`, or `xAfter` and `xBefore`; undefined if the schema has no order. */
  range?: (shape: Shape) => 'numeric' | 'chronological' | undefined
  /** Maximum length of values in an index; no limit by default. */
  maxIndexed?: (shape: Shape) => number
  /** The query parameter of a filter or a bound, and the stored form of its value. Throws INVALID_INPUT. */
  parameter: (description: string, schema: TSchema) => TSchema
  parse: (name: string, text: string, schema: TSchema) => string | number
  /** The type of its cells in reports. */
  cell: CellType
}
