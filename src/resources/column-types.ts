import { type TSchema, Type } from 'typebox'
import { instantFrom, instantOf } from '../http/headers/instant.ts'
import { documentedRules } from '../http/partial-schema.ts'
import { malformedQuery } from '../http/problems/problem.ts'
import { isStorableText, Line, lines, noControls } from '../http/text-rules.ts'
import { mustBeUuid, uuidOf } from '../http/uuid.ts'
import type { ColumnType, FieldList, Shape } from './column-type.ts'
import { decimalColumnCodec, decimalColumnName, decimalParameter, parseDecimalParameter } from './decimal-fields.ts'

const isEvery = (choices: readonly unknown[] | undefined, type: string) =>
  choices !== undefined && choices.length > 0 && choices.every((choice) => typeof choice === type)
const isPlain = (shape: Shape, choices: readonly unknown[] | undefined, ...types: string[]) =>
  choices === undefined && types.includes(String(shape.type))

const ordered: readonly FieldList[] = ['filters', 'ranges', 'sorts', 'unique']
const asText = (_name: string, text: string) => text
const exactFormats = ['date', 'time', 'uri', 'url', 'uuid', 'ipv4', 'ipv6']
const safe = { minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }

/** Returns the schema of a text query parameter. */
export const textParameter = (description: string) => Type.Optional(Line(0, 300, { description }))
export const instantQuery = (description: string) =>
  Type.Optional(Type.String({ maxLength: 40, description, ...documentedRules({ format: 'date-time' }) }))

/** Values that are stored as JSON. Lists cannot be filtered or sorted by them. */
const jsonText = {
  sql: 'text',
  codec: {
    encode: (value: unknown) => JSON.stringify(value),
    decode: (stored: unknown) => JSON.parse(String(stored)) as unknown,
  },
  lists: [],
  parameter: textParameter,
  parse: asText,
  cell: 'json',
} as const

/** Every column type; the keys are recorded in the database. */
export const columnTypes = {
  // UUIDs that are ids of rows, and references to them. Other UUID fields are stored as text.
  uuid: {
    stores: (shape) => shape['~reference'] !== undefined && shape.type === 'string',
    sql: 'uuid',
    normalize: (value) => String(value).toLowerCase(),
    lists: ['filters', 'sorts', 'unique'],
    parameter: (description) => Type.Optional(Type.String({ description, ...documentedRules({ format: 'uuid' }) })),
    parse: (name, text) => {
      const uuid = uuidOf(text)
      if (uuid === undefined) throw malformedQuery(name, mustBeUuid)
      return uuid
    },
    cell: 'uuid',
  },
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
  file: {
    stores: (shape) => shape['~file'] !== undefined,
    ...jsonText,
  },
  json: {
    stores: (shape, choices) => isPlain(shape, choices, 'object', 'array'),
    ...jsonText,
  },
} as const satisfies Record<string, ColumnType>

export type ColumnKind = keyof typeof columnTypes

/** Returns the column type of a kind. Optional members that it does not define are undefined. */
export const columnType = (kind: ColumnKind): ColumnType => columnTypes[kind]

/** Returns the values of an enumeration; undefined for any other schema. */
export function choicesOf(schema: TSchema): readonly unknown[] | undefined {
  const { enum: allowed, const: only, anyOf } = schema as Shape
  return allowed ?? (only === undefined ? anyOf?.map((choice) => choice.const) : [only])
}

/** Returns the kind of column for a field's schema; undefined if no column type can store its values. */
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
