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

const kindOfType: Readonly<Record<string, ColumnKind>> = {
  string: 'text',
  integer: 'integer',
  number: 'number',
  boolean: 'boolean',
  object: 'json',
  array: 'json',
}
const exactFormats = ['date', 'time', 'uri', 'url', 'uuid', 'ipv4', 'ipv6']

/** The column type for the values of a schema; undefined where they have no single type. */
export function columnTypeOf(schema: TSchema): ColumnKind | undefined {
  const { type, format = '', enum: allowed, const: only, anyOf } = schema as Shape
  const choices = allowed ?? (only === undefined ? anyOf?.map((choice) => choice.const) : [only])
  if (choices !== undefined) return kindOfChoices(choices)
  if (type === 'string' && format === 'date-time') return 'instant'
  if (type === 'string' && exactFormats.includes(format)) return 'exact'
  return typeof type === 'string' && Object.hasOwn(kindOfType, type) ? kindOfType[type] : undefined
}

/** The column type of an enumeration; text is compared exactly. */
function kindOfChoices(choices: readonly unknown[]): ColumnKind | undefined {
  const is = (type: string) => choices.length > 0 && choices.every((choice) => typeof choice === type)
  if (is('string')) return 'exact'
  if (is('boolean')) return 'boolean'
  if (!is('number')) return undefined
  return choices.every(Number.isSafeInteger) ? 'integer' : 'number'
}

/** Rejects NUL, which PostgreSQL text cannot store, and lone surrogates, which UTF-8 cannot encode. */
const storable = /^(?:[^\0\ud800-\udfff]|[\ud800-\udbff][\udc00-\udfff])*$/

/** Adds the rules that storage imposes on a body: text and numbers that both engines can store. */
export function withStorageRules(body: TObject): TObject {
  const properties = Object.entries(body.properties).map(([name, schema]) => [name, withRule(schema as TSchema)])
  return amended(body, { properties: Object.fromEntries(properties) })
}

function withRule(schema: TSchema): TSchema {
  const {
    type,
    format,
    pattern,
    minimum = Number.MIN_SAFE_INTEGER,
    maximum = Number.MAX_SAFE_INTEGER,
  } = schema as Shape
  const kind = columnTypeOf(schema)
  if (kind === 'instant') return Type.Refine(schema, isInstant, () => 'must be a date and time of the calendar')
  if (kind === 'integer' && type === 'integer') return amended(schema, { minimum, maximum })
  if (kind !== 'text' || format === 'email' || pattern === noControls || pattern === lines) return schema
  return Type.Refine(schema, isStorable, () => 'must not hold NUL or halves of surrogate pairs')
}

const isInstant = (value: unknown) => instantOf(String(value)) !== undefined
const isStorable = (value: unknown) => storable.test(String(value))

/** The SQL name of a field. */
export const columnName = (field: string) => field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** The parts of a declaration that determine the columns of its table. */
export interface Kept {
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

/** The table of a declaration. */
export function tableOf({ path, table, body, kinds, filters, ranges, search, sorts, folded, blank, unique }: Kept) {
  const listed = new Set([...filters, ...ranges, ...sorts])
  const defaults = defaultsOf(body)
  const columns = Object.entries(kinds).map(
    ([field, kind]): ResourceColumn => ({
      name: columnName(field),
      kind,
      required: body.required?.includes(field) ?? false,
      folded: folded.includes(field),
      unique: unique.includes(field),
      indexed: listed.has(field),
      ...(blank.includes(field) && { blank: true }),
      ...(Object.hasOwn(defaults, field) && { default: keptAs(kind, defaults[field]) }),
    }),
  )
  return { path, name: table, columns, search }
}

/** A value as stored in its column. */
function keptAs(kind: ColumnKind, value: unknown): string | number {
  if (kind === 'instant') return new Date(String(value)).toISOString()
  return encoded(kind, value) as string | number
}
