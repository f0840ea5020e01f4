// Stores deleted rows, so that they can be restored.

import { type RawBuilder, sql } from 'kysely'
import type { Database, Queryable } from './database.ts'
import type { CellCast, Engine } from './engine.ts'
import { iso, type RowId } from './ids.ts'
import { passesAll, type RowTest, testedColumns, testSql } from './rows/row-test.ts'
import type { ScanRequester } from './scans/scan.ts'
import { releaseFiles } from './stored-files.ts'
import { inSteps, maxSwept } from './sweep.ts'
import type { DeletedRow } from './tables/resources.ts'

/** A column of deleted rows. Cells stored with a kind other than `kind` are read as null. */
export interface KeptColumn {
  type: CellCast
  /** The column's current kind; undefined if the kind never changes. */
  kind?: string
}

/** The content of a deleted row: the stored values by column, and the kinds of the columns. */
export interface KeptContent {
  cells: Readonly<Record<string, string | number | null>>
  kinds: Readonly<Record<string, string>>
}

/** The deleted rows of one table that have not expired and pass a test. */
export interface KeptSelection {
  table: string
  /** The columns that tests can compare. */
  columns: ReadonlyMap<string, KeptColumn>
  test: RowTest
  /** The current time, in ISO 8601. */
  now: string
}

/** Maximum number of rows per statement. */
const maxRows = 500

/** Stores deleted rows. Replaces an older deleted row that has the same id. */
export async function keepDeleted(tx: Queryable, rows: readonly DeletedRow[]): Promise<void> {
  for (let from = 0; from < rows.length; from += maxRows) {
    await tx
      .insertInto('deletedRows')
      .values(rows.slice(from, from + maxRows))
      .onConflict((conflict) =>
        conflict.columns(['tableName', 'rowId']).doUpdateSet((row) => ({
          content: row.ref('excluded.content'),
          deletedBy: row.ref('excluded.deletedBy'),
          deletedAt: row.ref('excluded.deletedAt'),
          expiresAt: row.ref('excluded.expiresAt'),
        })),
      )
      .execute()
  }
}

/** Where a page starts: after the row with this deletion time and id. */
export interface KeptPosition {
  deletedAt: string
  rowId: string
}

interface KeptPage {
  after: KeptPosition | null
  backwards: boolean
  count: number
  requester: ScanRequester
}

/**
 * Reads deleted rows, newest first or, with `backwards`, oldest first. Runs as a scan if the test may exclude rows,
 * because no index then bounds the cost.
 */
export function readDeleted(db: Database, of: KeptSelection, page: KeptPage): Promise<DeletedRow[]> {
  const { after, backwards, count, requester } = page
  const [order, beyond] = backwards ? (['asc', '>'] as const) : (['desc', '<'] as const)
  const query = db.read
    .selectFrom('deletedRows')
    .selectAll()
    .where(isSelected(db.engine, of))
    .$if(after !== null, (rows) =>
      rows.where(sql<boolean>`(deleted_at, row_id) ${sql.raw(beyond)} (${after?.deletedAt}, ${after?.rowId})`),
    )
    .orderBy('deletedAt', order)
    .orderBy('rowId', order)
    .limit(count)
  return of.test === passesAll
    ? query.execute()
    : db.scan(query.where(db.engine.interruptible('deleted_rows')), requester)
}

/** Removes a deleted row and returns it; undefined if there is none. */
export const takeDeleted = (
  tx: Queryable,
  engine: Engine,
  of: KeptSelection,
  id: RowId,
): Promise<DeletedRow | undefined> =>
  tx
    .deleteFrom('deletedRows')
    .where('rowId', '=', String(id))
    .where(isSelected(engine, of))
    .returningAll()
    .executeTakeFirst()

function isSelected(engine: Engine, { table, columns, test, now }: KeptSelection): RawBuilder<boolean> {
  const isKept = sql<boolean>`table_name = ${table} and expires_at > ${now}`
  if (test === passesAll) return isKept
  const cells = [...testedColumns(test)].map((name) => sql`${cellOf(engine, columns, name)} as ${sql.ref(name)}`)
  // Selects the deleted row's columns under the name of its original table, because tests of related rows refer to that
  // name.
  const row = sql`select ${cells.length > 0 ? sql.join(cells) : sql`1`}`
  return sql`${isKept} and exists (
    select 1 from (${row}) as ${sql.ref(table)} where ${testSql(test, { isEach: true })})`
}

function cellOf(engine: Engine, columns: KeptSelection['columns'], name: string): RawBuilder<unknown> {
  const column = columns.get(name)
  if (column === undefined) throw new Error(`Deleted rows have no column ${name}`)
  const content = sql.ref('deleted_rows.content')
  const cell = engine.jsonCell(content, ['cells', name], column.type)
  if (column.kind === undefined) return cell
  const kind = engine.jsonCell(content, ['kinds', name], 'text')
  return sql`case when ${kind} = ${sql.lit(column.kind)} then ${cell} end`
}

/** Renames columns in a table's deleted rows; `names` maps old names to new ones. */
export async function renameInDeleted(tx: Queryable, table: string, names: ReadonlyMap<string, string>): Promise<void> {
  const renamed = <Value>(values: Readonly<Record<string, Value>>) =>
    Object.fromEntries(Object.entries(values).map(([name, value]) => [names.get(name) ?? name, value]))
  for (let after = ''; ; ) {
    const rows = await tx
      .selectFrom('deletedRows')
      .select(['rowId', 'content'])
      .where('tableName', '=', table)
      .where('rowId', '>', after)
      .orderBy('rowId')
      .limit(maxRows)
      .execute()
    for (const { rowId, content } of rows) {
      const { cells, kinds } = JSON.parse(content) as KeptContent
      const changed = JSON.stringify({ cells: renamed(cells), kinds: renamed(kinds) })
      const query = tx.updateTable('deletedRows').set({ content: changed }).where('tableName', '=', table)
      await query.where('rowId', '=', rowId).execute()
    }
    const last = rows[maxRows - 1]
    if (last === undefined) return
    after = last.rowId
  }
}

/** Discards all deleted rows of a table. */
export const forgetDeleted = (tx: Queryable, table: string) =>
  tx.deleteFrom('deletedRows').where('tableName', '=', table).execute()

/** Discards expired deleted rows and releases their files, in batches; returns the number of rows. */
export async function expireDeletedRows(db: Database, now: () => number): Promise<number> {
  const isExpired = sql<boolean>`expires_at < ${iso(now())}`
  return inSteps(db, async (tx) => {
    const expired = await tx
      .deleteFrom('deletedRows')
      .where(isExpired)
      .where(sql<boolean>`(table_name, row_id) in (
        select table_name, row_id from deleted_rows where ${isExpired} limit ${sql.lit(maxSwept)})`)
      .returning(['tableName', 'rowId'])
      .execute()
    for (const [table, rows] of Map.groupBy(expired, ({ tableName }) => tableName)) {
      const ids = rows.map(({ rowId }) => rowId)
      await releaseFiles(tx, { table, ids, state: 'kept' }, now())
    }
    return expired.length
  })
}
