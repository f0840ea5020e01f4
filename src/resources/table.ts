import type { TObject, TSchema } from 'typebox'
import type { IdType } from '../storage/ids.ts'
import type { ResourceColumn, ResourceTable, StoredCell } from '../storage/resource-tables/resource-columns.ts'
import { withNames } from '../storage/resource-tables/stored-names.ts'
import type { Codec } from '../storage/rows/column-codec.ts'
import type { ColumnNames } from '../storage/rows/column-names.ts'
import type { DeclaredAccess } from './access/rules.ts'
import { amended, type ColumnKind, columnType, kindOf } from './column-types.ts'
import type { Shown } from './computed/options.ts'
import { defaultsOf } from './constraints/defaults.ts'
import { tupleIndexes } from './constraints/unique.ts'
import type { MigrateOptions } from './migration/options.ts'
import { overlayOf } from './migration/overlay.ts'
import { schemaChangesOf } from './migration/schema-changes.ts'
import type { Reference } from './relations/reference.ts'

/** Returns the column name of a field, in snake case. */
export const columnName = (field: string) => field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** The collections whose table names have no prefix. */
export const unprefixedTables = ['users', 'products', 'books']

/** Returns the default table name of a collection; `name` is its path without the slash. */
export const tableName = (name: string) =>
  unprefixedTables.includes(name) ? name : `resource_${name.replaceAll('-', '_')}`

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
  ids: IdType
  body: TObject
  kinds: Readonly<Record<string, ColumnKind>>
  filters: readonly string[]
  ranges: readonly string[]
  search: readonly string[]
  sorts: readonly string[]
  folded: readonly string[]
  blank: readonly string[]
  unique: readonly string[]
  tuples: readonly (readonly string[])[]
  references: readonly Reference[]
  access?: DeclaredAccess
  migrate?: MigrateOptions
  columns?: ColumnNames
  overlay?: ColumnNames
}

/** Returns the table that a resource declaration needs. */
export function tableOf(declaration: TableDeclaration): ResourceTable {
  const { path, table, ids, body, kinds, filters, ranges, search, sorts, folded, blank, unique, references } =
    declaration
  const changes = schemaChangesOf(declaration, (field, value) =>
    storedValue(kinds[field] as ColumnKind, body.properties[field] as TSchema, value),
  )
  const tuples = tupleIndexes(table, declaration.tuples, folded)
  const targets = new Map(references.map(({ field, table }) => [field, table]))
  // Access rules compare text exactly, so text fields to filter by also need an index on their exact values. References
  // are indexed, because the deletion of a row would otherwise scan every referring table.
  const isExact = (field: string) =>
    declaration.access !== undefined && folded.includes(field) && filters.includes(field)
  const indexed = new Set([...filters, ...ranges, ...sorts, ...targets.keys()])
  const defaults = defaultsOf(body)
  const columns = Object.entries(kinds).map(([field, kind]): ResourceColumn => {
    const together = tuples.filter(({ fields }) => fields.includes(field)).map(({ index }) => index)
    return {
      name: columnName(field),
      kind: columnType(kind).recordedAs?.(body.properties[field] as TSchema) ?? kind,
      sql: columnType(kind).sql,
      required: body.required?.includes(field) ?? false,
      folded: folded.includes(field),
      unique: unique.includes(field),
      indexed: indexed.has(field),
      ...(isExact(field) && { exact: true }),
      ...(blank.includes(field) && { blank: true }),
      ...(targets.has(field) && { references: targets.get(field) as string }),
      ...(Object.hasOwn(defaults, field) && {
        default: storedDefault(kind, body.properties[field] as TSchema, defaults[field]),
      }),
      ...(together.length > 0 && { together }),
    }
  })
  const stored = declaration.access ? [...columns, createdByColumn] : columns
  const declared: ResourceTable = {
    ...{ path, name: table, columns: stored, search: search.map(columnName) },
    ...(ids !== 'integer' && { ids }),
    ...(tuples.length > 0 && { tuples }),
    ...(changes && { changes }),
    ...(declaration.overlay && {
      overlay: overlayOf({
        ...{ body, kinds, columns: declaration.overlay },
        codecOf: (field) => codecOf(kinds[field] as ColumnKind, body.properties[field] as TSchema),
      }),
    }),
  }
  const names = Object.entries(declaration.columns ?? {}).map(([field, name]) => [columnName(field), name] as const)
  return withNames(declared, new Map(names))
}

/** The column for the creator of a row. Rows from before access rules were declared have no value. */
const createdByColumn: ResourceColumn = {
  ...{ name: 'created_by', kind: 'exact', sql: 'key', required: false, folded: false, unique: false, indexed: true },
}

/** Converts a value to the form that its column stores. */
function storedValue(kind: ColumnKind, schema: TSchema, value: unknown): StoredCell {
  const { normalize } = columnType(kind)
  const codec = codecOf(kind, schema)
  const normal = normalize ? normalize(value) : value
  return (codec ? codec.encode(normal) : normal) as StoredCell
}

/** Converts a default to the form that its column stores. */
function storedDefault(kind: ColumnKind, schema: TSchema, value: unknown): string | number {
  const stored = storedValue(kind, schema, value)
  // A bigint becomes text, because the record of the table is JSON. Both engines convert the text to the type of the
  // column.
  return (typeof stored === 'bigint' ? String(stored) : stored) as string | number
}

/** Returns the codec of a field's values; undefined if they are stored unchanged. */
function codecOf(kind: ColumnKind, schema: TSchema): Codec | undefined {
  const { codec } = columnType(kind)
  return typeof codec === 'function' ? codec(schema) : codec
}

/** Returns the codecs of the fields that have one. */
export function codecsOf({ shownKinds, shownBody }: Shown): Record<string, Codec> {
  const codecs = Object.entries(shownKinds).map(([name, kind]) => [
    name,
    codecOf(kind, shownBody.properties[name] as TSchema),
  ])
  return Object.fromEntries(codecs.filter(([, codec]) => codec !== undefined))
}
