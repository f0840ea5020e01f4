import { sql } from 'kysely'
import type { Queryable } from '../database.ts'
import { forgetDeleted } from '../deleted-rows.ts'
import type { Engine } from '../engine.ts'
import { releaseTable } from '../stored-files.ts'
import { dropIndexStatement } from './ddl.ts'
import { countOf, rowCount } from './mismatch.ts'
import { hasIndex, readTable, tuplesWith } from './read-table.ts'
import { readRecord, saveRecord } from './record.ts'
import type { ResourceTable } from './resource-columns.ts'

import { withStoredNames } from './stored-names.ts'
import { tupleIndexPrefix } from './unique-tuples.ts'

/** The changes to one table, as statements and comments, and whether the table is dropped. */
export interface Removal {
  table: string
  lines: string[]
}

/** The tables of the first release, which belong to the service itself. */
export const builtInTables: readonly string[] = ['users', 'products', 'books']

/**
 * Drops columns and tables that are recorded but no longer declared, together with their data. Affects only the tables
 * of resources. Columns and tables that the service did not create stay. Returns what was dropped.
 */
export async function removeUndeclared(
  tx: Queryable,
  engine: Engine,
  tables: readonly ResourceTable[],
): Promise<Removal[]> {
  const removals: Removal[] = []
  for (const table of tables) {
    const lines = await dropColumns(tx, engine, table)
    if (lines.length > 0) removals.push({ table: table.name, lines })
  }
  const declared = new Set(tables.map(({ name }) => name))
  const recorded = await tx.selectFrom('resourceTables').select('name').where('adopted', '=', 0).execute()
  const undeclared = recorded
    .map(({ name }) => name)
    .filter((name) => !builtInTables.includes(name) && !declared.has(name))
  return [...removals, ...(await dropTables(tx, engine, undeclared))]
}

async function dropColumns(tx: Queryable, engine: Engine, table: ResourceTable): Promise<string[]> {
  const record = await readRecord(tx, table.name)
  if (record === undefined) return []
  const before = record.columns
  const existing = await readTable(tx, engine, table.name, before)
  const kept = new Set(withStoredNames(table, before, existing.types).columns.map(({ name }) => name))
  const lines: string[] = []
  for (const column of before.filter(({ name }) => !kept.has(name) && existing.types.has(name))) {
    const { name, folded, adopted } = column
    const rows = await countOf(tx, table.name, sql`${sql.ref(name)} is not null`)
    const isOwn = (index: string) => !adopted || index.startsWith(tupleIndexPrefix(table.name))
    const statements = [
      ...tuplesWith(existing, column).filter(isOwn).map(dropIndexStatement),
      ...(adopted ? [`${name}_key`] : [name, `${name}_key`])
        .filter((one) => hasIndex(existing, one))
        .map((one) => dropIndexStatement(`${table.name}_${one}`)),
      ...(folded ? [`alter table "${table.name}" drop column "${name}_key"`] : []),
      ...(adopted ? [] : [`alter table "${table.name}" drop column "${name}"`]),
    ]
    for (const statement of statements) await sql.raw(statement).execute(tx)
    const place = `${table.name}.${name}`
    const done = adopted
      ? `stop using ${place}, which stays with its values in ${rowCount(rows)}`
      : `remove ${place} with its values in ${rowCount(rows)}`
    lines.push(...statements, `-- ${done}`)
  }
  const left = before.filter(({ name }) => kept.has(name))
  if (lines.length > 0) await saveRecord(tx, table.name, JSON.stringify(left))
  return lines
}

/** Drops tables; tables with references to others come first. */
async function dropTables(tx: Queryable, engine: Engine, names: readonly string[]): Promise<Removal[]> {
  const references = new Map<string, string[]>()
  for (const name of names) {
    const { rows } = await engine.foreignKeysOf(name).execute(tx)
    references.set(
      name,
      rows.map(({ table }) => table).filter((table) => table !== name),
    )
  }
  const removals: Removal[] = []
  const left = new Set(names)
  while (left.size > 0) {
    const free = [...left].find((name) => ![...left].some((other) => references.get(other)?.includes(name)))
    const name = free ?? ([...left][0] as string)
    left.delete(name)
    const columns = ((await readRecord(tx, name))?.columns ?? []).map((one) => one.name)
    const { rows: existing } = await engine.columnsOf(name).execute(tx)
    const rows = existing.length === 0 ? 0 : await countOf(tx, name, sql`true`)
    const drop = `drop table if exists "${name}"`
    await sql.raw(drop).execute(tx)
    await forgetDeleted(tx, name)
    await releaseTable(tx, name)
    await tx.deleteFrom('resourceTables').where('name', '=', name).execute()
    removals.push({ table: name, lines: [drop, `-- remove ${name} with ${rowCount(rows)} of ${columns.join(', ')}`] })
  }
  return removals
}
