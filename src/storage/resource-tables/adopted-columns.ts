import type { ColumnDetails, Engine } from '../engine.ts'
import type { ExistingTable } from './read-table.ts'
import { fieldOf, type Overlay, type ResourceColumn, type ResourceTable } from './resource-columns.ts'
import { tupleIndexPrefix } from './unique-tuples.ts'

/** A table that existed before a resource was mapped to it. */
export interface AdoptedTable {
  engine: Engine
  table: ResourceTable
  existing: ExistingTable
  details: ReadonlyMap<string, ColumnDetails>
  /** True if nothing is recorded about the table yet. */
  isNew: boolean
  /** The columns of fields, except those that the service created. */
  adopted: readonly ResourceColumn[]
  /** The adopted columns that are not recorded yet. */
  fresh: readonly ResourceColumn[]
}

/** A column that every resource table has in addition to the columns of its fields. */
export interface SystemColumn {
  name: string
  type: 'integer' | 'text'
  /** The value for existing rows; the current time by default. */
  initial?: number
  expected: string
  /** True if the service omits the column when it inserts a row. */
  needsDefault?: true
}

const times = ['created_at', 'updated_at'].map(
  (name): SystemColumn => ({ name, type: 'text', expected: 'text, for instants such as 2026-03-01T12:00:00.000Z' }),
)
export const systemColumns: readonly SystemColumn[] = [
  { name: 'revision', type: 'integer', initial: 1, expected: 'an integer type, for the revision of the row' },
  ...times,
  {
    name: 'shares_second',
    type: 'integer',
    initial: 0,
    expected: 'an integer type with the default 0',
    needsDefault: true,
  },
]

/** Returns a line for each difference between the table and its declaration: what was found, and what is expected. */
export function differences(of: AdoptedTable): string[] {
  const { table, adopted, fresh, isNew } = of
  return [
    ...(isNew ? [...keyDifference(of), ...systemDifferences(of), ...missingColumns(of), ...totalDifferences(of)] : []),
    ...adopted.flatMap((column) => columnDifferences(of, column).map((what) => `${nameOf(column)}: ${what}`)),
    ...(isNew ? table.columns : fresh).flatMap((column) => companionDifference(of, column)),
    ...unusedRequired(of),
    ...fresh.flatMap((column) => uniqueDifference(of, column)),
    ...(isNew ? tupleDifferences(of) : []),
  ]
}

/** Returns the name of the column, with the field if its name differs, such as `book_title (title)`. */
export const nameOf = (column: ResourceColumn): string => {
  const field = fieldOf(column)
  return field === column.name ? field : `${column.name} (${field})`
}

const typeOf = ({ type, length }: ColumnDetails) => (length === null ? type || 'no type' : `${type}(${length})`)

function keyDifference({ table, details }: AdoptedTable): string[] {
  const id = details.get('id')
  if (id?.isIdentity) return []
  const found = id === undefined ? 'found no such column' : `found ${typeOf(id)}`
  const other = [...details.values()].find(({ isIdentity }) => isIdentity)
  const cure = other ? `; alter table "${table.name}" rename column "${other.name}" to "id"` : ''
  return [`id: ${found}, expected an integer primary key for which the database generates values${cure}`]
}

function systemDifferences({ engine, details }: AdoptedTable): string[] {
  return systemColumns.flatMap(({ name, type, expected, needsDefault }) => {
    const found = details.get(name)
    if (found === undefined) return []
    const isMissing = needsDefault && !found.hasDefault
    const fits = engine.capacityOf(found.type).holds === type && !found.isGenerated && !isMissing
    return fits ? [] : [`${name}: found ${typeOf(found)}, expected ${expected}; rename this column`]
  })
}

/**
 * Reports columns that the declaration names but the table lacks. Creating them would hide a misspelled name. Ignores
 * the column for `createdBy`, which no existing table has.
 */
function missingColumns({ table, details }: AdoptedTable): string[] {
  return table.columns
    .filter((column) => fieldOf(column) !== 'createdBy')
    .filter((column) => table.overlay?.columns[fieldOf(column)] !== undefined && !details.has(column.name))
    .map((column) => `${nameOf(column)}: found no such column; the table has ${[...details.keys()].join(', ')}`)
}

const totalDifferences = ({ table, details }: AdoptedTable): string[] =>
  table.columns
    .filter(({ name, total }) => total !== undefined && details.has(name))
    .map((column) => `${nameOf(column)}: found a column, expected none, because the service computes the field`)

function columnDifferences(of: AdoptedTable, column: ResourceColumn): string[] {
  const { engine, existing, details } = of
  const found = details.get(column.name)
  if (found === undefined) return ['found no such column']
  const limit = of.table.overlay?.limits[fieldOf(column)]
  const fits = limit === undefined || canStore(engine, column, found, limit)
  const isNullable = !column.required && column.default === undefined
  const target = existing.references.get(column.name)
  const isReferring = column.references !== undefined && target !== column.references
  return [
    ...(fits ? [] : [`found ${typeOf(found)}, expected ${expectedType(engine, column, limit)}`]),
    ...(found.isGenerated ? ['found a generated column, expected one that can be written'] : []),
    ...(found.isRequired && isNullable
      ? ['found not null, expected null to be allowed, because the field is optional']
      : []),
    ...(isReferring && (target !== undefined || !engine.addsForeignKeys)
      ? [`found ${target ? `a foreign key to ${target}` : 'no foreign key'}, expected one to ${column.references}`]
      : []),
  ]
}

type Limit = Overlay['limits'][string]

function canStore(engine: Engine, column: ResourceColumn, { type, length }: ColumnDetails, limit: Limit): boolean {
  const { holds, magnitude = Number.POSITIVE_INFINITY } = engine.capacityOf(type)
  const isNumeric = holds === 'numeric'
  switch (column.sql) {
    case 'bigint':
      return (holds === 'integer' || (isNumeric && !column.kind.startsWith('decimal'))) && limit.magnitude <= magnitude
    case 'smallint':
      return holds === 'integer' || isNumeric
    case 'double precision':
      return holds === 'number' || isNumeric
    case 'uuid':
      return holds === engine.uuidType
    default:
      return (holds === 'text' || (isNumeric && limit.isTime)) && limit.length <= (length ?? Number.POSITIVE_INFINITY)
  }
}

function expectedType({ uuidType }: Engine, { sql, kind }: ResourceColumn, limit: Limit | undefined): string {
  const { length = 0, magnitude = 0 } = limit ?? {}
  if (sql === 'smallint') return 'an integer type, with 1 for true and 0 for false'
  if (sql === 'double precision') return sql
  if (sql === 'uuid') return uuidType
  if (sql !== 'bigint') return Number.isFinite(length) ? `text for ${length} characters` : 'text of any length'
  const what = kind.startsWith('decimal') ? `an integer type, for a ${kind} without its point,` : 'an integer type'
  return `${what} for values up to ${magnitude}`
}

function companionDifference({ details, existing, isNew }: AdoptedTable, column: ResourceColumn): string[] {
  const key = `${column.name}_key`
  if (!column.folded || !details.has(key) || (!isNew && existing.recorded.has(column.name))) return []
  return [`${key}: found a column, expected none, because the case-folded text of ${fieldOf(column)} needs this name`]
}

/**
 * Reports columns without a field that would reject inserted rows, because they require a value and have no default.
 */
function unusedRequired({ table, details, existing }: AdoptedTable): string[] {
  const used = new Set(['id', ...systemColumns.map(({ name }) => name), ...table.columns.map(({ name }) => name)])
  const isUsed = (name: string) => used.has(name) || used.has(name.replace(/_key$/, '')) || existing.recorded.has(name)
  return [...details.values()]
    .filter((one) => one.isRequired && !one.hasDefault && !one.isGenerated && !isUsed(one.name))
    .map(({ name }) => `${name}: found not null without a default and no field for it, so no row could be inserted`)
}

function uniqueDifference({ existing }: AdoptedTable, column: ResourceColumn): string[] {
  if (column.unique || !existing.unique.has(column.name)) return []
  return [`${nameOf(column)}: found a unique index, expected ${fieldOf(column)} in unique, or no such index`]
}

/**
 * Reports unique indexes over several fields that `unique` does not declare. Ignores the service's own indexes, and
 * indexes with a column that has no field.
 */
function tupleDifferences({ table, existing }: AdoptedTable): string[] {
  const fields = new Map(table.columns.map((column) => [column.name, fieldOf(column)]))
  const declared = (table.tuples ?? []).map((tuple) => tuple.fields.toSorted().join())
  return [...existing.tuples].flatMap(([index, columns]) => {
    const named = columns.map((column) => fields.get(column))
    const isOther = named.includes(undefined) || index.startsWith(tupleIndexPrefix(table.name))
    if (isOther || declared.includes(named.toSorted().join())) return []
    return [
      `${columns.join(', ')}: found the unique index ${index}, expected [${named.join(', ')}] in unique, or no such index`,
    ]
  })
}
