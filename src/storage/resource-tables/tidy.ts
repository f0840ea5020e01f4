import { sql } from 'kysely'
import type { Queryable } from '../database.ts'
import { renameInDeleted } from '../deleted-rows.ts'
import type { Engine } from '../engine.ts'
import { snake } from '../rows/column-names.ts'
import { comparedColumn, constraintName, dropIndexStatement, indexStatements, uniqueTupleStatement } from './ddl.ts'
import { type ExistingTable, hasIndex, readTable } from './read-table.ts'
import { type RecordedColumn, readRecord, saveRecord } from './record.ts'
import { fieldOf, type ResourceColumn, type ResourceTable } from './resource-columns.ts'

import { withNames, withStoredNames } from './stored-names.ts'

/**
 * Renames the columns of renamed fields to match, together with their indexes and foreign keys. Returns the statements.
 * A column keeps its name if the new name is already in use.
 */
export async function tidyTable(tx: Queryable, engine: Engine, declared: ResourceTable): Promise<string[]> {
  const record = await readRecord(tx, declared.name)
  if (record === undefined) return []
  const before = record.columns
  const existing = await readTable(tx, engine, declared.name, before)
  const table = withStoredNames(declared, before, existing.types)
  const nameOf = declaredNames(declared)
  const stale = table.columns.filter(
    (column) => existing.recorded.has(column.name) && !existing.types.has(nameOf(column)),
  )
  if (stale.length === 0) return []
  const names = new Map(stale.map((column) => [column.name, nameOf(column)]))
  const fields = new Map(stale.map((column) => [column.name, fieldOf(column)]))
  const statements = tidyStatements(engine, table, existing, names)
  for (const statement of statements) await sql.raw(statement).execute(tx)
  const keys = [...names].map(([from, to]): [string, string] => [`${from}_key`, `${to}_key`])
  await renameInDeleted(tx, table.name, new Map([...names, ...keys]))
  const tidied = before.map((column): RecordedColumn => {
    const [name, stored] = [names.get(column.name), fields.get(column.name)]
    if (name === undefined || stored === undefined) return column
    const { field: _, ...others } = column
    return { ...others, name, ...(snake(stored) !== name && { field: stored }) }
  })
  await saveRecord(tx, table.name, JSON.stringify(tidied))
  return statements
}

/**
 * Resolves the name that a column should have: the declared name or, by default, one derived from the field. A column
 * that existed before the service used its table is renamed only if its new name is declared.
 */
const declaredNames =
  ({ overlay }: ResourceTable) =>
  (column: ResourceColumn): string => {
    const field = fieldOf(column)
    return overlay?.columns[field] ?? (column.adopted ? column.name : snake(field))
  }

function tidyStatements(
  engine: Engine,
  table: ResourceTable,
  existing: ExistingTable,
  names: ReadonlyMap<string, string>,
): string[] {
  const tidied = withNames(table, names)
  const isStale = ({ name }: ResourceColumn) => names.has(name)
  const stale = table.columns.filter(isStale)
  const compared = stale.map(comparedColumn)
  const tuples = [...existing.tuples].filter(([, columns]) => columns.some((column) => compared.includes(column)))
  const fields = new Set(stale.map(fieldOf))
  return [
    ...tuples.map(([index]) => dropIndexStatement(index)),
    ...stale.flatMap((column) =>
      renameStatements(engine, table.name, existing, column, names.get(column.name) as string),
    ),
    ...tidied.columns
      .filter((column) => fields.has(fieldOf(column)))
      .flatMap((one) => indexStatements(table.name, one)),
    ...(tidied.tuples ?? [])
      .filter((tuple) => tuple.fields.some((field) => fields.has(field)))
      .map((tuple) => uniqueTupleStatement(table.name, tuple)),
  ]
}

/** Returns the statements that rename a column and drop its indexes. */
function renameStatements(engine: Engine, table: string, existing: ExistingTable, column: ResourceColumn, to: string) {
  const { name } = column
  const place = `alter table "${table}" rename column`
  const key = `${name}_key`
  const hasReference = existing.recorded.get(name)?.references !== undefined
  return [
    ...[name, key].filter((one) => hasIndex(existing, one)).map((one) => dropIndexStatement(`${table}_${one}`)),
    `${place} "${name}" to "${to}"`,
    ...(existing.types.has(key) ? [`${place} "${key}" to "${to}_key"`] : []),
    ...(hasReference ? engine.renameForeignKey(table, constraintName(table, name), constraintName(table, to)) : []),
  ]
}
