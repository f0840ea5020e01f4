import { type TObject, type TSchema, Type } from 'typebox'
import { inputValidator } from '../../http/policies/body-parsing.ts'
import {
  InvalidCell,
  type SchemaChanges,
  type StoredCell,
  type StoredCells,
} from '../../storage/resource-tables/resource-columns.ts'
import { type Codec, decimalCodec } from '../../storage/rows/column-codec.ts'
import { type ColumnKind, columnTypes } from '../column-types.ts'
import type { EarlierRow, MigrateOptions } from './options.ts'

interface Declared {
  body: TObject
  kinds: Readonly<Record<string, ColumnKind>>
  migrate?: MigrateOptions | undefined
}

/** Converts a valid value to the form stored in its field's column. */
export type StoreValue = (field: string, value: unknown) => StoredCell

/** Converts the `migrate` option to the form that the table needs. */
export function schemaChangesOf({ body, migrate }: Declared, store: StoreValue): SchemaChanges | undefined {
  if (migrate === undefined) return undefined
  const { renamed = {}, fill = {}, convert = {} } = migrate as Record<string, Readonly<Record<string, unknown>>>
  type Run = (input: unknown) => unknown
  const filling = Object.entries(fill).map(([field, value]): [string, SchemaChanges['fill'][string]] => {
    if (typeof value !== 'function') return [field, { constant: constantOf(store(field, value)) }]
    const checked = checkedValue(body, field, store)
    return [field, { compute: (cells) => checked(() => (value as Run)(rowOf(cells))) }]
  })
  const converting = Object.entries(convert).map(([field, run]): [string, SchemaChanges['convert'][string]] => {
    const checked = checkedValue(body, field, store)
    return [field, (value, kind) => checked(() => (run as Run)(decoded(kind, value)))]
  })
  const functions = [...Object.values(fill), ...Object.values(convert)].filter((run) => typeof run === 'function')
  return {
    renamed: renamed as Readonly<Record<string, string>>,
    fill: Object.fromEntries(filling),
    convert: Object.fromEntries(converting),
    source: functions.map(String).join('\n'),
  }
}

/** Converts decimals to text, because they may have more digits than a JavaScript number can represent. */
const constantOf = (stored: StoredCell) => (typeof stored === 'bigint' ? String(stored) : (stored as string | number))

/**
 * Returns a function that calls a function of `migrate` and converts its result to the stored form. Throws
 * `InvalidCell` if the called function throws or its result is invalid.
 */
function checkedValue({ properties }: TObject, field: string, store: StoreValue) {
  const check = inputValidator(Type.Object({ [field]: properties[field] as TSchema }), 'body')
  return (run: () => unknown): StoredCell => {
    const value = called(run) ?? undefined
    const body: Record<string, unknown> = value === undefined ? {} : { [field]: structuredClone(value) }
    const result = check(body)
    if ('error' in result) {
      const [failure] = result.error
      throw new InvalidCell(value === undefined ? 'is required' : (failure?.message ?? 'is not valid'))
    }
    return body[field] === undefined ? null : store(field, body[field])
  }
}

function called(run: () => unknown): unknown {
  try {
    return run()
  } catch (error) {
    throw new InvalidCell(`has no value: the function threw ${error}`, { cause: error })
  }
}

/** Converts a stored row to the form in which the API served it. */
function rowOf(cells: StoredCells): EarlierRow {
  const present = Object.entries(cells).filter(([, { value }]) => value !== null)
  return Object.fromEntries(present.map(([field, { kind, value }]) => [field, decoded(kind, value)])) as EarlierRow
}

const scaleOf = (kind: string) => /^decimal with scale (\d+)$/.exec(kind)?.[1]

/** Decodes a cell by its recorded kind, which current declarations may no longer use. */
function decoded(kind: string, value: unknown): unknown {
  const scale = scaleOf(kind)
  if (scale !== undefined) return decimalCodec(Number(scale)).decode(value)
  return codecs[kind]?.decode(value) ?? value
}

const codecs: Readonly<Record<string, Codec>> = {
  boolean: columnTypes.boolean.codec,
  json: columnTypes.json.codec,
}
