import { type TObject, type TSchema, Type } from 'typebox'
import { instantOf } from '../http/headers/instant.ts'
import { lines, noControls } from '../http/text-rules.ts'
import type { ColumnKind, ResourceColumn } from '../storage/resource-tables/resource-columns.ts'
import { encoded } from '../storage/rows/column-codec.ts'
import { amended } from './amended.ts'
import { defaultsOf } from './defaults.ts'

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
}

const kindByJsonType: Readonly<Record<string, ColumnKind>> = {
  string: 'text',
  integer: 'integer',
  number: 'number',
  boolean: 'boolean',
  object: 'json',
  array: 'json',
}
const exactFormats = ['date', 'time', 'uri', 'url', 'uuid', 'ipv4', 'ipv6']

/** The column type for a field's schema; undefined if its values have no single type. */
export function columnTypeOf(schema: TSchema): ColumnKind | undefined {
  const { type, format = '', enum: allowed, const: only, anyOf } = schema as Shape
  const choices = allowed ?? (only === undefined ? anyOf?.map((choice) => choice.const) : [only])
  if (choices !== undefined) return kindOfEnum(choices)
  if (type === 'string' && format === 'date-time') return 'instant'
  if (type === 'string' && exactFormats.includes(format)) return 'exact'
  return typeof type === 'string' && Object.hasOwn(kindByJsonType, type) ? kindByJsonType[type] : undefined
}

/** The column type of an enum or const; its text is compared exactly. */
function kindOfEnum(choices: readonly unknown[]): ColumnKind | undefined {
  const is = (type: string) => choices.length > 0 && choices.every((choice) => typeof choice === type)
  if (is('string')) return 'exact'
  if (is('boolean')) return 'boolean'
  if (!is('number')) return undefined
  return choices.every(Number.isSafeInteger) ? 'integer' : 'number'
}

/** Text without NUL, which PostgreSQL cannot store, and without lone surrogates, which UTF-8 cannot encode. */
const storable = /^(?:[^\0\ud800-\udfff]|[\ud800-\udbff][\udc00-\udfff])*$/

/** Restricts the text and numbers of a body schema to values that both engines can store. */
export function withStorageRules(body: TObject): TObject {
  const properties = Object.entries(body.properties).map(([name, schema]) => [name, withStorageRule(schema as TSchema)])
  return amended(body, { properties: Object.fromEntries(properties) })
}

function withStorageRule(schema: TSchema): TSchema {
  const {
    type,
    format,
    pattern,
    minimum = Number.MIN_SAFE_INTEGER,
    maximum = Number.MAX_SAFE_INTEGER,
  } = schema as Shape
  const kind = columnTypeOf(schema)
  if (kind === 'instant') return Type.Refine(schema, isInstant, () => 'must be an existing date and time')
  if (kind === 'integer' && type === 'integer') return amended(schema, { minimum, maximum })
  if (kind !== 'text' || format === 'email' || pattern === noControls || pattern === lines) return schema
  return Type.Refine(schema, isStorable, () => 'must not contain NUL characters or lone surrogates')
}

const isInstant = (value: unknown) => instantOf(String(value)) !== undefined
const isStorable = (value: unknown) => storable.test(String(value))

/** The column name of a field, in snake case. */
export const columnName = (field: string) => field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** The parts of a resource declaration that determine its table. */
export interface TableDeclaration {
  path: string
  table: string
  body: TObject
  kinds: Readonly<Record<string, ColumnKind>>
  filters: readonly string[]
  ranges: readonly string[]
  search: readonly string[]
  sorts: readonly string[]
  folded: readonly string[]
  blank: readonly string[]
  unique: readonly string[]
}

/** The table that a resource declaration needs. */
export function tableOf({
  path,
  table,
  body,
  kinds,
  filters,
  ranges,
  search,
  sorts,
  folded,
  blank,
  unique,
}: TableDeclaration) {
  const indexed = new Set([...filters, ...ranges, ...sorts])
  const defaults = defaultsOf(body)
  const columns = Object.entries(kinds).map(
    ([field, kind]): ResourceColumn => ({
      name: columnName(field),
      kind,
      required: body.required?.includes(field) ?? false,
      folded: folded.includes(field),
      unique: unique.includes(field),
      indexed: indexed.has(field),
      ...(blank.includes(field) && { blank: true }),
      ...(Object.hasOwn(defaults, field) && { default: storedDefault(kind, defaults[field]) }),
    }),
  )
  return { path, name: table, columns, search }
}

/** A default as its column stores it. */
function storedDefault(kind: ColumnKind, value: unknown): string | number {
  if (kind === 'instant') return new Date(String(value)).toISOString()
  return encoded(kind, value) as string | number
}
