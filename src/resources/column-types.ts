import { type TSchema, Type } from 'typebox'
import { instantFrom, instantOf } from '../http/headers/instant.ts'
import { documentedRules } from '../http/partial-schema.ts'
import { malformedQuery } from '../http/problems/problem.ts'
import { isStorableText, Line, lines, noControls } from '../http/text-rules.ts'
import type { CellType } from '../storage/engine.ts'
import type { SqlType } from '../storage/resource-tables/resource-columns.ts'
import type { Codec } from '../storage/rows/column-codec.ts'
import { decimalColumnCodec, decimalColumnName, decimalParameter, parseDecimalParameter } from './decimal-fields.ts'

/** The parts of a JSON Schema that determine how its values are stored. */
interface Shape {
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

const isEvery = (choices: readonly unknown[] | undefined, type: string) =>
  choices !== undefined && choices.length > 0 && choices.every((choice) => typeof choice === type)
const isPlain = (shape: Shape, choices: readonly unknown[] | undefined, ...types: string[]) =>
  choices === undefined && types.includes(String(shape.type))

const ordered: readonly FieldList[] = ['filters', 'ranges', 'sorts', 'unique']
const asText = (_name: string, text: string) => text
const exactFormats = ['date', 'time', 'uri', 'url', 'uuid', 'ipv4', 'ipv6']
const safe = { minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }

/** A query parameter with text. */
export const textParameter = (description: string) => Type.Optional(Line(0, 300, { description }))
export const instantQuery = (description: string) =>
  Type.Optional(Type.String({ maxLength: 40, description, ...documentedRules({ format: 'date-time' }) }))

/** Every column type; the keys are recorded in the database. */
export const columnTypes = {
  instant: {
    stores: (shape, choices) => isPlain(shape, choices, 'string') && shape.format === 'date-time',
    sql: 'key',
    normalize: (value) => new Date(String(value)).toISOString(),
    storable: (schema) => Type.Refine(schema, isInstant, () => 'must be an existing date and time'),
    lists: ordered,
    range: () => 'chronological',
    parameter: instantQuery,
    parse: instantFrom,
    cell: 'instant',
  },
  exact: {
    stores: (shape, choices) =>
      isEvery(choices, 'string') || (isPlain(shape, choices, 'string') && exactFormats.includes(shape.format ?? '')),
    sql: 'key',
    lists: ordered,
    range: ({ format }) => (format === 'date' ? 'chronological' : undefined),
    // URLs have one byte per character.
    maxIndexed: ({ format = '' }) => (/^ur[il]$/.test(format) ? 2_048 : Number.POSITIVE_INFINITY),
    parameter: textParameter,
    parse: asText,
    cell: 'string',
  },
  decimal: {
    stores: (shape) => shape.$defs?.decimal !== undefined,
    sql: 'bigint',
    recordedAs: decimalColumnName,
    codec: decimalColumnCodec,
    lists: ordered,
    range: () => 'numeric',
    parameter: decimalParameter,
    parse: parseDecimalParameter,
    cell: 'decimal',
  },
  text: {
    stores: (shape, choices) => isPlain(shape, choices, 'string'),
    sql: 'text',
    storable: (schema) => {
      const { format, pattern } = schema as Shape
      if (format === 'email' || pattern === noControls || pattern === lines) return schema
      return Type.Refine(schema, isStorableText, () => 'must not contain NUL characters or lone surrogates')
    },
    folded: true,
    lists: ['filters', 'search', 'sorts', 'unique'],
    // Case folding may lengthen text.
    maxIndexed: () => 500,
    parameter: textParameter,
    parse: asText,
    cell: 'string',
  },
  reference: {
    stores: (shape) => shape['~reference'] !== undefined,
    sql: 'bigint',
    lists: ['filters', 'sorts', 'unique'],
    parameter: (description) => Type.Optional(Type.Integer({ minimum: 1, maximum: safe.maximum, description })),
    parse: (_name, text) => Number(text),
    cell: 'integer',
  },
  integer: {
    stores: (shape, choices) => isPlain(shape, choices, 'integer') || Boolean(choices?.every(Number.isSafeInteger)),
    sql: 'bigint',
    storable: (schema) => {
      const { type, minimum = safe.minimum, maximum = safe.maximum } = schema as Shape
      return type === 'integer' ? amended(schema, { minimum, maximum }) : schema
    },
    lists: ordered,
    range: () => 'numeric',
    parameter: (description) => Type.Optional(Type.Integer({ ...safe, description })),
    parse: (_name, text) => Number(text),
    cell: 'integer',
  },
  number: {
    stores: (shape, choices) => isPlain(shape, choices, 'number') || isEvery(choices, 'number'),
    sql: 'double precision',
    lists: ordered,
    range: () => 'numeric',
    parameter: (description) => Type.Optional(Type.Number({ description })),
    parse: (_name, text) => Number(text),
    cell: 'number',
  },
  boolean: {
    stores: (shape, choices) => isPlain(shape, choices, 'boolean') || isEvery(choices, 'boolean'),
    sql: 'smallint',
    codec: { encode: (value) => (value === true ? 1 : 0), decode: (stored) => stored === 1 },
    lists: ['filters'],
    parameter: (description) =>
      Type.Optional(Type.String({ description, ...documentedRules({ enum: ['true', 'false'] }) })),
    parse: (name, text) => {
      if (text !== 'true' && text !== 'false') throw malformedQuery(name, 'must be true or false')
      return text === 'true' ? 1 : 0
    },
    cell: 'boolean',
  },
  json: {
    stores: (shape, choices) => isPlain(shape, choices, 'object', 'array'),
    sql: 'text',
    codec: { encode: (value) => JSON.stringify(value), decode: (stored) => JSON.parse(String(stored)) },
    lists: [],
    parameter: textParameter,
    parse: asText,
    cell: 'json',
  },
} as const satisfies Record<string, ColumnType>

export type ColumnKind = keyof typeof columnTypes

/** The entry of a kind, with the members that not every entry has. */
export const columnType = (kind: ColumnKind): ColumnType => columnTypes[kind]

/** The values of an enumeration; undefined if the schema is none. */
export function choicesOf(schema: TSchema): readonly unknown[] | undefined {
  const { enum: allowed, const: only, anyOf } = schema as Shape
  return allowed ?? (only === undefined ? anyOf?.map((choice) => choice.const) : [only])
}

/** The column type for a field's schema; undefined if its values have no single type. */
export function kindOf(schema: TSchema): ColumnKind | undefined {
  const choices = choicesOf(schema)
  return (Object.keys(columnTypes) as ColumnKind[]).find((kind) => columnType(kind).stores(schema as Shape, choices))
}

const isInstant = (value: unknown) => instantOf(String(value)) !== undefined

/** Copies a schema with some keywords changed; the non-enumerable properties that TypeBox sets are preserved. */
export function amended<T extends TSchema>(schema: T, keywords: object): T {
  const own = Object.getOwnPropertyDescriptors(schema)
  return Object.defineProperties({}, { ...own, ...Object.getOwnPropertyDescriptors(keywords) }) as T
}
