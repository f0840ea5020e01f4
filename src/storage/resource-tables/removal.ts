import { type RawBuilder, sql } from 'kysely'
import type { Queryable } from '../database.ts'
import { forgetDeleted } from '../deleted-rows.ts'
import type { Engine } from '../engine.ts'
import { iso } from '../ids.ts'
import { releaseTable } from '../stored-files.ts'
import { dropIndexStatement } from './ddl.ts'
import { countRows, rowCount } from './mismatch.ts'
import { hasIndex, readTable, tuplesWith } from './read-table.ts'
import { readRecord, saveRecord } from './record.ts'
import { idsOf, type ResourceTable } from './resource-columns.ts'
import { withStoredNames } from './stored-names.ts'
import { tupleIndexPrefix } from './unique-tuples.ts'

/** The changes to one table: statements and SQL comments. */
export interface TableRemoval {
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
): Promise<TableRemoval[]> {
  const removals: TableRemoval[] = []
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
    const rows = await countRows(tx, table.name, sql`${sql.ref(name)} is not null`)
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
  if (lines.length === 0) return []
  await saveRecord(tx, table.name, JSON.stringify(left))
  const files = before.some(isFile) ? await releaseLostFiles(tx, engine, table, left.filter(isFile)) : []
  return [...lines, ...files]
}

const isFile = ({ kind }: { kind: string }) => kind === 'file'

/**
 * Releases the table's stored files that are not referenced by a row or by a deleted row that can be restored. If
 * several files have the same digest, each cell references one of them. The next sweep deletes released files. Returns
 * a comment if there are any.
 */
async function releaseLostFiles(
  tx: Queryable,
  engine: Engine,
  table: ResourceTable,
  columns: readonly { name: string }[],
): Promise<string[]> {
  // Base64 has no characters that are special in LIKE.
  const refers = (cell: RawBuilder<unknown>) =>
    sql`case when ${cell} like '%' || stored_files.sha256 || '%' then 1 else 0 end`
  const referring = (cellOf: (name: string) => RawBuilder<unknown>) =>
    sql.join([sql`0`, ...columns.map(({ name }) => refers(cellOf(name)))], sql` + `)
  const type = idsOf(table) === 'integer' ? 'bigint' : engine.name === 'sqlite' ? 'text' : 'uuid'
  const inRow = sql`select ${referring((name) => sql.ref(`r.${name}`))} from ${sql.table(table.name)} as r
    where r.id = cast(stored_files.row_id as ${sql.raw(type)})`
  const inDeletedRow = sql`select ${referring((name) => engine.jsonCell(sql.ref('d.content'), ['cells', name], 'text'))}
    from deleted_rows as d where d.table_name = stored_files.table_name and d.row_id = stored_files.row_id`
  const position = sql`select count(*) from stored_files as f where f.table_name = stored_files.table_name
    and f.row_id = stored_files.row_id and f.state = stored_files.state and f.sha256 = stored_files.sha256
    and f.key <= stored_files.key`
  // An upload can have an empty row id, so only the ids of files that belong to a row are cast.
  const needed = sql`case state when 'stored' then (${inRow}) when 'kept' then (${inDeletedRow}) end`
  const released = await tx
    .updateTable('storedFiles')
    .set({ state: 'unused', removeAt: iso(0) })
    .where('tableName', '=', table.name)
    .where('state', 'in', ['stored', 'kept'])
    .where(sql<boolean>`(${position}) > coalesce(${needed}, 0)`)
    .executeTakeFirst()
  const count = Number(released.numUpdatedRows)
  return count > 0
    ? [`-- remove ${count} ${count === 1 ? 'file' : 'files'} of ${table.name} from the result store`]
    : []
}

/** Drops tables; tables with references to others come first. */
async function dropTables(tx: Queryable, engine: Engine, names: readonly string[]): Promise<TableRemoval[]> {
  const references = new Map<string, string[]>()
  for (const name of names) {
    const { rows } = await engine.foreignKeysOf(name).execute(tx)
    references.set(
      name,
      rows.map(({ table }) => table).filter((table) => table !== name),
    )
  }
  const removals: TableRemoval[] = []
  const left = new Set(names)
  while (left.size > 0) {
    const free = [...left].find((name) => ![...left].some((other) => references.get(other)?.includes(name)))
    const name = free ?? ([...left][0] as string)
    left.delete(name)
    const columns = ((await readRecord(tx, name))?.columns ?? []).map((one) => one.name)
    const { rows: existing } = await engine.columnsOf(name).execute(tx)
    const rows = existing.length === 0 ? 0 : await countRows(tx, name, sql`true`)
    const drop = `drop table if exists "${name}"`
    await sql.raw(drop).execute(tx)
    await forgetDeleted(tx, name)
    await releaseTable(tx, name)
    await tx.deleteFrom('resourceTables').where('name', '=', name).execute()
    removals.push({ table: name, lines: [drop, `-- remove ${name} with ${rowCount(rows)} of ${columns.join(', ')}`] })
  }
  return removals
}
