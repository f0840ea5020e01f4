import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { RowId } from '../ids.ts'

/** Called after each run of a statement with the rows that it returned, as arrays. */
export type RecordRun = (rows: readonly unknown[][]) => void

/** Returns the function that records what a statement changes; undefined for a statement that only reads. */
export type RecorderOf = (db: DatabaseSync, sql: string, statement: StatementSync) => RecordRun | undefined

/** The changes made by the open transaction. */
export interface RecordedChanges {
  /** Tables in which any row may have changed. */
  tables: Set<string>
  /** Tables to which rows were added. */
  grown: Set<string>
  rows: [table: string, id: RowId][]
  isEverything: boolean
}

export const nothingRecorded = (): RecordedChanges => ({
  tables: new Set(),
  grown: new Set(),
  rows: [],
  isEverything: false,
})

const target = /\b(?:insert(?: or \w+)? into|replace into|update(?: or \w+)?|delete from)\s+"?(\w+)"?/gi
const definition = /^\s*(create|alter|drop|vacuum|reindex|attach|detach)\b/i

/**
 * Returns the function that records what a statement changes, as precisely as possible: the rows that it returns, the
 * table to which it adds rows, whole tables, or everything. Returns undefined for a statement that only reads.
 */
export function recorderOf(
  db: DatabaseSync,
  sql: string,
  statement: StatementSync,
  recorded: () => RecordedChanges,
): RecordRun | undefined {
  const named = [...sql.matchAll(target)].map(([, name]) => name as string).filter((name) => name !== 'set')
  const [table] = named
  const everything = () => {
    recorded().isEverything = true
  }
  if (table === undefined) return definition.test(sql) ? everything : undefined
  if (named.some((name) => hasTriggers(db, name))) return everything
  const isOne = named.length === 1
  if (isOne && /^\s*insert into/i.test(sql) && !/\bon conflict\b/i.test(sql))
    return () => void recorded().grown.add(table)
  const others = named.flatMap((name) => referringTables(db, name))
  const id = statement.columns().findIndex(({ table: of, column }) => of === table && column === 'id')
  const isReturned = isOne && /^\s*(update|delete)/i.test(sql) && id !== -1
  return (rows) => {
    const { tables, rows: changed } = recorded()
    if (isReturned) for (const row of rows) changed.push([table, row[id] as RowId])
    for (const name of isReturned ? others : [...named, ...others]) tables.add(name)
  }
}

/** Matches triggers that only maintain the text index or forbid changes. */
const harmless = /_(search_(updated|deleted)|no_(update|delete))$/

const hasTriggers = (db: DatabaseSync, table: string): boolean =>
  db
    .prepare(`select name from sqlite_schema where type = 'trigger' and tbl_name = ?`)
    .all(table)
    .some(({ name }) => !harmless.test(String(name)))

/** Returns the tables whose rows may change when rows of this table change, because of foreign keys with an action. */
function referringTables(db: DatabaseSync, table: string): string[] {
  const referring = db.prepare(
    `select sqlite_schema.name from sqlite_schema, pragma_foreign_key_list(sqlite_schema.name) as key
     where sqlite_schema.type = 'table' and key."table" = ?
       and not (key.on_delete in ('NO ACTION', 'RESTRICT') and key.on_update in ('NO ACTION', 'RESTRICT'))`,
  )
  const found = new Set<string>()
  const add = (name: string) => {
    for (const row of referring.all(name)) {
      const other = String(row.name)
      if (found.has(other)) continue
      found.add(other)
      add(other)
    }
  }
  add(table)
  return [...found]
}
