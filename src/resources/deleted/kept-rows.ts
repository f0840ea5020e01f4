import type { TSchema } from 'typebox'
import { type KeptColumn, type KeptContent, keepDeleted } from '../../storage/deleted-rows.ts'
import type { CellCast } from '../../storage/engine.ts'
import { iso } from '../../storage/ids.ts'
import { rowCodec } from '../../storage/rows/column-codec.ts'
import { columnOfField, keyColumnOfField } from '../../storage/rows/column-names.ts'
import type { Row, Rows } from '../../storage/rows/rows.ts'
import { callerId } from '../access/rules.ts'
import { type ColumnKind, columnType } from '../column-types.ts'
import type { Declaration } from '../declaration.ts'
import type { KeepRows } from '../relations/reference.ts'
import { codecsOf } from '../table.ts'

/** Returns the kind of each field's column, as recorded in the database. */
const kindsOf = ({ kinds, body }: Declaration): [field: string, kind: string][] =>
  Object.entries(kinds).map(([field, kind]) => [
    field,
    columnType(kind).recordedAs?.(body.properties[field] as TSchema) ?? kind,
  ])

/**
 * Returns the function that stores a collection's deleted rows so that they can be restored; undefined if deletions are
 * final.
 */
export function keeper(declaration: Declaration, rows: Rows): KeepRows | undefined {
  const { table, keepDeletedMs, columns, access } = declaration
  if (keepDeletedMs === undefined) return undefined
  const fields = [...Object.keys(declaration.kinds), ...(access ? ['createdBy'] : [])]
  const kinds = Object.fromEntries(kindsOf(declaration).map(([field, kind]) => [columnOfField(field, columns), kind]))
  const contentOf = ({ id, revision, sharesSecond, createdAt, updatedAt, ...values }: Row): KeptContent => {
    const stored = rows.cellsOf(Object.fromEntries(fields.map((field) => [field, values[field] ?? null])))
    const own = { id, revision, shares_second: sharesSecond, created_at: createdAt, updated_at: updatedAt }
    return { kinds, cells: { ...stored, ...own } as KeptContent['cells'] }
  }
  // `JSON.stringify` rejects bigints.
  const textOf = (content: KeptContent) =>
    JSON.stringify(content, (_, value) => (typeof value === 'bigint' ? String(value) : value))
  return (tx, deleted, { caller, now }) => {
    const expiresAt = iso(Date.parse(now) + keepDeletedMs)
    const common = { tableName: table, deletedBy: callerId(caller), deletedAt: now, expiresAt }
    const kept = deleted.map((row) => ({ ...common, rowId: String(row.id), content: textOf(contentOf(row as Row)) }))
    return keepDeleted(tx, kept)
  }
}

/** Returns the columns of deleted rows that access rules can compare. */
export function keptColumns(declaration: Declaration): ReadonlyMap<string, KeptColumn> {
  const { ids, columns, folded, kinds } = declaration
  const ofFields = kindsOf(declaration).map(([field, kind]): [string, KeptColumn] => [
    columnOfField(field, columns),
    { type: castOf(kinds[field] as ColumnKind), kind },
  ])
  const text: KeptColumn = { type: 'text' }
  return new Map<string, KeptColumn>([
    ...ofFields,
    ...folded.map((field) => [keyColumnOfField(field, columns), text] as const),
    ...[columnOfField('createdBy', columns), 'created_at', 'updated_at'].map((name) => [name, text] as const),
    ['id', { type: ids }],
    ['revision', { type: 'integer' }],
  ])
}

function castOf(kind: ColumnKind): CellCast {
  const { sql } = columnType(kind)
  if (sql === 'uuid') return 'uuid'
  if (sql === 'double precision') return 'number'
  return sql === 'text' || sql === 'key' ? 'text' : 'integer'
}

/**
 * Returns the function that reads the content of a deleted row. A field whose type has changed since the deletion has
 * no value; sums and counts have their initial values.
 */
export function keptRowReader(declaration: Declaration): (content: string) => Row {
  const { columns, access, computed } = declaration
  const { decode } = rowCodec(codecsOf(declaration))
  const fields = kindsOf(declaration).map(([field, kind]) => ({ field, kind, column: columnOfField(field, columns) }))
  const creator = columnOfField('createdBy', columns)
  return (content) => {
    const { cells, kinds } = JSON.parse(content) as KeptContent
    const values = fields.map(({ field, kind, column }) => [field, kinds[column] === kind ? cells[column] : null])
    const row = decode({
      id: cells.id,
      ...Object.fromEntries(values),
      ...{ revision: cells.revision, sharesSecond: cells.shares_second },
      ...{ createdAt: cells.created_at, updatedAt: cells.updated_at },
      ...(access && { createdBy: cells[creator] ?? null }),
    })
    return { ...row, ...computed.initial } as Row
  }
}
