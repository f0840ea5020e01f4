import type { Queryable } from '../database.ts'
import { type ColumnNames, snake } from '../rows/column-names.ts'
import { comparedColumn } from './ddl.ts'
import type { RecordedColumn } from './record.ts'
import { fieldOf, type ResourceColumn, type ResourceTable } from './resource-columns.ts'
import { tupleIndexName } from './unique-tuples.ts'

/**
 * Returns the table with the actual column names: a renamed field keeps the column of its earlier name. `types` lists
 * the existing columns, in case they are not recorded.
 */
export function withStoredNames(
  table: ResourceTable,
  recorded: readonly RecordedColumn[],
  types?: ReadonlyMap<string, string>,
): ResourceTable {
  const known = new Map(recorded.map((column) => [fieldOf(column), column.name]))
  const storedName = (column: ResourceColumn): string => {
    const field = fieldOf(column)
    const earlier = table.changes?.renamed[field]
    const name = known.get(field)
    if (name !== undefined || earlier === undefined) return name ?? column.name
    const isUnrecorded = types?.has(snake(earlier)) && !types.has(column.name)
    return known.get(earlier) ?? (isUnrecorded ? snake(earlier) : column.name)
  }
  const stored = withNames(table, new Map(table.columns.map((column) => [column.name, storedName(column)])))
  const adopted = new Set(recorded.filter((column) => column.adopted).map(({ name }) => name))
  if (adopted.size === 0) return stored
  const marked = stored.columns.map((column) =>
    adopted.has(column.name) ? { ...column, adopted: true as const } : column,
  )
  return { ...stored, columns: marked }
}

/** Returns an error for each field whose values are stored in a column other than the declared one. */
export function movedColumns({ path, name, columns, overlay }: ResourceTable): string[] {
  return columns.flatMap((column) => {
    const field = fieldOf(column)
    const declared = overlay?.columns[field]
    if (declared === undefined || declared === column.name) return []
    const where = `the field ${field} is stored in the column ${column.name} of ${name}, but columns names ${declared}`
    const cure = `Declare columns.${field} as '${column.name}', or stop the service and run plinth migrate --tidy, which renames the column`
    return [`${path}: ${where}. ${cure}`]
  })
}

/** Returns the table with its columns renamed. */
export function withNames(table: ResourceTable, names: ReadonlyMap<string, string>): ResourceTable {
  if ([...names].every(([from, to]) => from === to)) return table
  const renamed = (name: string) => names.get(name) ?? name
  const columns = table.columns.map((column): ResourceColumn => {
    const { field: _, ...others } = column
    const [field, name] = [fieldOf(column), renamed(column.name)]
    return { ...others, name, ...(snake(field) !== name && { field }) }
  })
  const byField = new Map(columns.map((column) => [fieldOf(column), column]))
  const tuples = table.tuples?.map(({ fields }) => {
    const compared = fields.map((field) => comparedColumn(byField.get(field) as ResourceColumn))
    return { index: tupleIndexName(table.name, compared), fields, columns: compared }
  })
  const togetherOf = (field: string) => tuples?.filter(({ fields }) => fields.includes(field)).map(({ index }) => index)
  return {
    ...table,
    columns: columns.map((column) =>
      column.together ? { ...column, together: togetherOf(fieldOf(column)) ?? [] } : column,
    ),
    ...(tuples && { tuples }),
    search: table.search.map(renamed),
  }
}

/** Returns an error for each column that two fields would use. */
export function sharedColumns({ path, columns }: ResourceTable): string[] {
  const byName = Map.groupBy(columns, ({ name }) => name)
  return [...byName].flatMap(([name, sharing]) => {
    const [holder, other] = sharing.toSorted((one) => (one.field === undefined ? 1 : -1)).map(fieldOf)
    const cure = 'Stop the service and run plinth migrate --tidy with the definition that was served last'
    return other === undefined
      ? []
      : [`${path}: the field ${other} needs the column ${name}, in which ${holder} is stored. ${cure}`]
  })
}

/** Reads the column names that differ from their fields' default column names, by table. */
export async function readColumnNames(db: Queryable): Promise<ReadonlyMap<string, ColumnNames>> {
  const tables = await db.selectFrom('resourceTables').select(['name', 'columns']).execute()
  const named = tables.map(({ name, columns }): [string, [string, string][]] => {
    const all = JSON.parse(columns) as RecordedColumn[]
    return [name, all.flatMap((column) => (column.field === undefined ? [] : [[column.field, column.name]]))]
  })
  return new Map(
    named.filter(([, columns]) => columns.length > 0).map(([name, columns]) => [name, Object.fromEntries(columns)]),
  )
}
