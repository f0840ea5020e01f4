import type { TObject, TSchema } from 'typebox'
import type { ResourceColumn, ResourceTable } from '../storage/resource-tables/resource-columns.ts'
import { amended, type ColumnKind, columnType, kindOf } from './column-types.ts'
import { defaultsOf } from './defaults.ts'

/** The column name of a field, in snake case. */
export const columnName = (field: string) => field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** Restricts a body schema to values that both engines can store. */
export function withStorageRules(body: TObject): TObject {
  const properties = Object.entries(body.properties as Record<string, TSchema>).map(([name, schema]) => {
    const kind = kindOf(schema)
    return [name, (kind && columnType(kind).storable?.(schema)) ?? schema]
  })
  return amended(body, { properties: Object.fromEntries(properties) })
}

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
export function tableOf(declaration: TableDeclaration): ResourceTable {
  const { path, table, body, kinds, filters, ranges, search, sorts, folded, blank, unique } = declaration
  const indexed = new Set([...filters, ...ranges, ...sorts])
  const defaults = defaultsOf(body)
  const columns = Object.entries(kinds).map(
    ([field, kind]): ResourceColumn => ({
      name: columnName(field),
      kind,
      sql: columnType(kind).sql,
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
  const { normalize, codec } = columnType(kind)
  const normal = normalize ? normalize(value) : value
  return (codec ? codec.encode(normal) : normal) as string | number
}
