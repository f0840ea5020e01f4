import { createHash } from 'node:crypto'
import type { Database, Queryable } from '../database.ts'
import type { RowId } from '../ids.ts'
import type { ResourceTable, SchemaChangesTable } from './resource-columns.ts'

/** Identifies the definition whose declarations cause the changes. */
export interface DefinitionLabel {
  version: string
  digest: string
}

export function labelOf(tables: readonly ResourceTable[], version: string | undefined): DefinitionLabel {
  const digest = createHash('sha256').update(JSON.stringify(tables)).digest('hex').slice(0, 12)
  return { version: version ?? digest, digest }
}

/** Parses the number of rows from a comment; 0 if there is none. */
const rowsOf = (line: string) => Number(/ (\d+) rows?\b/.exec(line)?.[1] ?? 0)

/** Records finished changes to a table: statements, and comments about changed rows. */
export async function recordChanges(
  tx: Queryable,
  table: string,
  lines: readonly string[],
  label: DefinitionLabel,
  now: string,
): Promise<void> {
  for (const [position, line] of lines.entries()) {
    const isComment = line.startsWith('-- ')
    const change = isComment ? line.slice(3) : line
    const rows = isComment ? rowsOf(line) : 0
    const times = { startedAt: now, finishedAt: now, position, columnName: null, lastId: 0, lastUuid: null }
    await tx
      .insertInto('schemaChanges')
      .values({ tableName: table, change, rows, ...times, ...label })
      .execute()
  }
}

/** Reads all changes in order; none if the database has not been migrated. */
export async function readSchemaChanges({
  read,
  engine,
}: Pick<Database, 'read' | 'engine'>): Promise<SchemaChangesTable[]> {
  if ((await engine.columnsOf('schema_changes').execute(read)).rows.length === 0) return []
  return read.selectFrom('schemaChanges').selectAll().orderBy('startedAt').orderBy('position').execute()
}

/** Returns the values that record the id of the last row that a change has written. */
export const progressAt = (id: RowId) =>
  typeof id === 'number' ? { lastId: id, lastUuid: null } : { lastId: 0, lastUuid: id }

/** Reads the progress of an interrupted change by the same definition; undefined if there is none. */
export async function interruptedChange(
  tx: Queryable,
  table: string,
  column: string,
  { digest }: DefinitionLabel,
): Promise<{ after: RowId; rows: number } | undefined> {
  const found = await tx
    .selectFrom('schemaChanges')
    .select(['lastId', 'lastUuid', 'rows'])
    .where('tableName', '=', table)
    .where('columnName', '=', column)
    .where('finishedAt', 'is', null)
    .where('digest', '=', digest)
    .executeTakeFirst()
  return found && { after: found.lastUuid ?? found.lastId, rows: found.rows }
}

/**
 * Deletes the unfinished changes to these tables. The current definition no longer declares them, so other writes
 * may change the rows and make the recorded progress wrong.
 */
export async function abandonChanges(tx: Queryable, tables: readonly ResourceTable[]): Promise<void> {
  if (tables.length === 0) return
  const names = tables.map(({ name }) => name)
  await tx.deleteFrom('schemaChanges').where('finishedAt', 'is', null).where('tableName', 'in', names).execute()
}
