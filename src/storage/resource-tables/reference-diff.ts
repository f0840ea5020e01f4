import { sql } from 'kysely'
import type { Queryable } from '../database.ts'
import type { Engine } from '../engine.ts'
import { constraintName, dropIndexStatement, indexStatements, typeNameOf, uniqueTupleStatement } from './ddl.ts'
import { countRows, mismatch, rowCount } from './mismatch.ts'
import type { ExistingTable } from './read-table.ts'
import type { ResourceColumn, ResourceTable } from './resource-columns.ts'
import type { TableChanges } from './schema-diff.ts'

/**
 * Returns the changes with two additions: statements that make the foreign keys of existing columns match the
 * declaration, and mismatches.
 */
export async function diffReferences(
  tx: Queryable,
  engine: Engine,
  table: ResourceTable,
  existing: ExistingTable,
  changes: TableChanges,
): Promise<TableChanges> {
  const statements = [...changes.statements]
  const mismatches = [...changes.mismatches]
  for (const column of table.columns) {
    const { name, references } = column
    const actual = existing.references.get(name)
    const wasDeclared = existing.recorded.get(name)?.references !== undefined
    // New columns get their foreign keys when they are added. A wrong type has already been reported as a mismatch.
    if (existing.types.get(name) !== typeNameOf(column, engine)) continue
    // Keep foreign keys that the service did not create.
    if (actual === references || (references === undefined && !wasDeclared)) continue
    const problem = await missingTargets(tx, engine, table, column)
    if (problem === undefined) {
      statements.push(...changeStatements(engine, table.name, column, existing))
    } else mismatches.push(problem)
  }
  return { ...changes, statements, mismatches }
}

function changeStatements(
  engine: Engine,
  table: string,
  column: ResourceColumn,
  existing: ExistingTable,
): readonly string[] {
  const { name, references = null } = column
  const exists = existing.recorded.get(name)?.references !== undefined && existing.references.has(name)
  const tuples = [...existing.tuples].filter(([, columns]) => columns.includes(name))
  return engine.changeForeignKey({
    ...{ table, column: name, constraint: constraintName(table, name), exists, references },
    type: existing.types.get(name) as string,
    dropIndexes: [dropIndexStatement(`${table}_${name}`), ...tuples.map(([index]) => dropIndexStatement(index))],
    createIndexes: [
      ...indexStatements(table, column),
      ...tuples.map(([index, columns]) => uniqueTupleStatement(table, { index, columns })),
    ],
  })
}

/** Returns a mismatch if the column refers to rows that do not exist. */
async function missingTargets(tx: Queryable, engine: Engine, table: ResourceTable, column: ResourceColumn) {
  const { name, references } = column
  if (references === undefined) return undefined
  // If another table has a mismatch, the referenced table may not exist yet. The migration then fails anyway.
  if ((await engine.columnsOf(references).execute(tx)).rows.length === 0) return undefined
  const missing = `"${name}" is not null and "${name}" not in (select "id" from "${references}")`
  const rows = await countRows(tx, table.name, sql.raw(missing))
  if (rows === 0) return undefined
  const what = `refers to rows of ${references} that do not exist, in ${rowCount(rows)} of ${table.name}`
  return mismatch(table, column, what, 'Correct these rows, then start again:', [
    `select "id", "${name}" from "${table.name}" where ${missing}`,
  ])
}
