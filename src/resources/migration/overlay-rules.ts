import type { TObject, TSchema } from 'typebox'
import { nearest } from '../../http/nearest.ts'
import { type ColumnNames, columnOfField, snake } from '../../storage/rows/column-names.ts'
import { isOwnTable } from '../../storage/tables/own-tables.ts'
import { columnType, kindOf } from '../column-types.ts'
import { tableName, unprefixedTables } from '../table.ts'

/** The options that map a resource to an existing table. */
interface OverlayOptions {
  path: string
  ids?: unknown
  body: TObject
  access?: unknown
  table?: unknown
  columns?: unknown
}

const nameForm = /^[a-z][a-z0-9_]*$/
/**
 * PostgreSQL truncates names at 63 bytes; the longest name that is derived from only the table is `<table>_created_at`.
 */
const maxNameBytes = 52
/** The longest index names are `<table>_<column>_key`. */
const maxTableAndColumnBytes = 58
const nameRule = `must be a lower-case name such as 'book_title', of at most ${maxNameBytes} characters a-z, 0-9 and _`

/** The names of columns that the service maintains itself or that an engine reserves in every table. */
const reservedColumns = [
  ...['id', 'revision', 'created_at', 'updated_at', 'shares_second', 'created_by'],
  ...['rowid', 'oid', 'ctid', 'xmin', 'xmax', 'cmin', 'cmax', 'tableoid'],
]

/** Returns the errors in the options `table` and `columns`. `shown` names all fields, including computed ones. */
export function overlayErrors(
  { path, ids, body, access, table, columns }: OverlayOptions,
  shown: readonly string[],
): string[] {
  if (table === undefined && columns === undefined) return []
  if (ids === 'uuid') return ["table and columns cannot be combined with ids: 'uuid'; use integer ids"]
  if (unprefixedTables.includes(path.slice(1))) {
    return [
      'table and columns cannot be combined with this path, which has a table of the service: choose another path',
    ]
  }
  const errors = table === undefined ? [] : tableErrors(table)
  if (columns === undefined) return errors.length > 0 ? errors : lengthErrors(table as string, shown, {})
  if (typeof columns !== 'object' || columns === null || Array.isArray(columns)) {
    return [...errors, "columns must be an object with the columns of fields, such as { title: 'book_title' }"]
  }
  const fields = [...Object.keys(body.properties), ...(access === undefined ? [] : ['createdBy'])]
  const named = Object.entries(columns).flatMap(([field, name]) => columnErrors(fields, field, name))
  errors.push(...(named.length > 0 ? named : sharedErrors(body, columns as ColumnNames)))
  if (errors.length > 0) return errors
  const stored = [...shown, ...Object.keys(columns).filter((field) => !shown.includes(field))]
  return lengthErrors(isName(table) ? table : tableName(path.slice(1)), stored, columns as ColumnNames)
}

/** Returns an error for the first field whose column and table do not fit into an index name. */
function lengthErrors(table: string, fields: readonly string[], columns: ColumnNames): string[] {
  const isLong = (field: string) => table.length + columnOfField(field, columns).length > maxTableAndColumnBytes
  const field = fields.find(isLong)
  if (field === undefined) return []
  const column = columnOfField(field, columns)
  return [
    `the table '${table}' and the column '${column}' of ${field} are too long together: at most ${maxTableAndColumnBytes} characters`,
  ]
}

const isName = (name: unknown): name is string =>
  typeof name === 'string' && nameForm.test(name) && name.length <= maxNameBytes

function tableErrors(table: unknown): string[] {
  if (!isName(table)) return [`table ${nameRule}`]
  return isOwnTable(table) ? [`table is '${table}', which belongs to the service or the database`] : []
}

function columnErrors(fields: readonly string[], field: string, name: unknown): string[] {
  if (field === 'id')
    return ['columns cannot include id: the primary key must be a column named id; rename it in the table']
  if (!fields.includes(field)) {
    const suggestion = nearest(field, fields)
    const hint = suggestion === undefined ? '' : `; did you mean ${suggestion}?`
    return [`columns names '${field}', but body has no such field${hint}`]
  }
  if (!isName(name)) return [`columns.${field} ${nameRule}`]
  return reservedColumns.includes(name) ? [`columns.${field} is '${name}', which is reserved`] : []
}

/** Returns an error if two fields share a column, or if a field uses the companion column of another field. */
function sharedErrors({ properties }: TObject, columns: ColumnNames): string[] {
  const names = Object.keys(properties).map((field) => [field, columns[field] ?? snake(field)] as const)
  return names.flatMap(([field, name], at) => {
    const other = names.slice(0, at).find((one) => one[1] === name)
    if (other) return [`the fields ${other[0]} and ${field} have the same column '${name}'`]
    const folded = names.find(([text, one]) => name === `${one}_key` && isFolded(properties[text] as TSchema))
    return folded ? [`the column '${name}' of ${field} is reserved for the case-folded text of ${folded[0]}`] : []
  })
}

function isFolded(schema: TSchema): boolean {
  const kind = kindOf(schema)
  return kind !== undefined && columnType(kind).folded === true
}
