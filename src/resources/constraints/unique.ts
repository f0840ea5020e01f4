import type { TObject, TSchema } from 'typebox'
import { Problem } from '../../http/problems/problem.ts'
import type { Engine } from '../../storage/engine.ts'
import { comparedColumn } from '../../storage/resource-tables/ddl.ts'
import type { UniqueTuple } from '../../storage/resource-tables/resource-columns.ts'
import { tupleIndexName } from '../../storage/resource-tables/unique-tuples.ts'
import { type ColumnNames, columnOfField, snake } from '../../storage/rows/column-names.ts'
import { choicesOf, columnType, kindOf } from '../column-types.ts'

/** The `unique` option: names of fields, and tuples of fields that are unique in combination. */
export type Unique = readonly (string | readonly string[])[]

/** The parts of a declaration that determine what is unique. */
interface Declared {
  noun: string
  unique: readonly string[]
  tuples: readonly (readonly string[])[]
  columns?: ColumnNames
  view?: { hidden: readonly string[] }
}

/** Returns the fields that are unique on their own. */
export const uniqueFields = (unique: Unique = []): string[] => unique.filter((entry) => typeof entry === 'string')

/** Returns the tuples of fields that are unique in combination. */
export const uniqueTuples = (unique: Unique = []): (readonly string[])[] =>
  unique.filter((entry) => typeof entry !== 'string')

const maxTupleFields = 5
/** PostgreSQL limits index rows to 2,704 bytes, including the header. */
const maxTupleBytes = 2_600
const maxBytesPerCharacter = 4

/** Returns the errors in the tuples of `unique`; single fields are checked with the other lists of fields. */
export function tupleErrors(body: TObject, unique: Unique): string[] {
  const tuples = uniqueTuples(unique)
  const keys = tuples.map((tuple) => tuple.toSorted().join())
  const repeated = tuples.filter((_, at) => keys.indexOf(keys[at] as string) !== at)
  return [
    ...tuples.flatMap((tuple) => errorsOf(body, tuple)),
    ...repeated.map((tuple) => `unique has ${shown(tuple)} twice`),
  ]
}

const shown = (tuple: readonly string[]) => `[${tuple.join(', ')}]`

function errorsOf({ properties }: TObject, tuple: readonly string[]): string[] {
  if (tuple.length < 2)
    return [`unique cannot include ${shown(tuple)}: a tuple has several fields; name one without []`]
  if (tuple.length > maxTupleFields)
    return [`unique cannot include ${shown(tuple)}: use at most ${maxTupleFields} fields`]
  if (new Set(tuple).size < tuple.length) return [`unique cannot include ${shown(tuple)}: it names a field twice`]
  const schemas = tuple
    .map((field) => properties[field] as TSchema | undefined)
    .filter((schema) => schema !== undefined)
  if (schemas.length === tuple.length && schemas.every((schema) => Object.hasOwn(schema, 'default'))) {
    return [`unique cannot include ${shown(tuple)}: several rows would have the defaults of all its fields`]
  }
  const bytes = schemas.reduce<number>((sum, schema) => sum + maxBytesOf(schema), 0)
  // `bytes` is infinite if a field has no maxLength; another check reports that error.
  if (!Number.isFinite(bytes) || bytes <= maxTupleBytes) return []
  const limit = `an index takes ${maxTupleBytes.toLocaleString('en')}`
  return [
    `unique cannot include ${shown(tuple)}: their values may have ${bytes.toLocaleString('en')} bytes, and ${limit}`,
  ]
}

/** Returns the maximum size of a field's value in an index. */
function maxBytesOf(schema: TSchema): number {
  const { maxLength = Number.POSITIVE_INFINITY, format } = schema as TSchema & { maxLength?: number; format?: string }
  const choices = choicesOf(schema)
  const kind = kindOf(schema)
  const type = kind && columnType(kind)
  if (type?.folded) return maxLength * maxBytesPerCharacter
  if (choices) return Math.max(...choices.map((choice) => Buffer.byteLength(String(choice))))
  // URLs have one byte per character; the values of all other types are short.
  return /^ur[il]$/.test(format ?? '') ? maxLength : 50
}

/** Returns the unique indexes for the tuples, over the columns of their fields. */
export const tupleIndexes = (table: string, tuples: Declared['tuples'], folded: readonly string[]): UniqueTuple[] =>
  tuples.map((fields) => {
    const columns = fields.map((field) => comparedColumn({ name: snake(field), folded: folded.includes(field) }))
    return { index: tupleIndexName(table, columns), fields, columns }
  })

/**
 * Returns the 409 DUPLICATE_RESOURCE problem, which names the fields of the violated unique index. Fields that a view
 * hides are omitted unless all are hidden.
 */
export function duplicateProblem(
  engine: Engine,
  error: unknown,
  { noun, unique, tuples, columns: names, view }: Declared,
): Problem {
  const columns = engine.duplicateColumns(error).map((column) => column.replace(/_key$/, ''))
  const indexes = [...unique.map((field) => [field]), ...tuples]
  const isViolated = (fields: readonly string[]) =>
    fields.length === columns.length && fields.every((field) => columns.includes(columnOfField(field, names)))
  const violated = indexes.find(isViolated) ?? (indexes[0] as readonly string[])
  const shown = violated.filter((field) => !view?.hidden.includes(field))
  const fields = shown.length > 0 ? shown : violated
  const errors = fields.map((field) => {
    const others = fields.filter((name) => name !== field)
    return { field, message: `is in use already${others.length > 0 ? ` together with ${listed(others)}` : ''}` }
  })
  return new Problem('DUPLICATE_RESOURCE', `Another ${noun} has this ${listed(fields)}`, { errors })
}

/** Returns text such as `tenant, email and name`. */
const listed = (names: readonly string[]) =>
  names.length > 1 ? `${names.slice(0, -1).join(', ')} and ${names.at(-1)}` : `${names[0]}`
