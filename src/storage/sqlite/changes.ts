import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { Changes } from '../database.ts'
import type { RowId } from '../ids.ts'

/** Called after each run of a statement with the rows that it returned, as arrays. */
export type RecordRun = (rows: readonly unknown[][]) => void

/** Returns the function that records what a statement changes; undefined for a statement that only reads. */
export type RecorderOf = (db: DatabaseSync, sql: string, statement: StatementSync) => RecordRun | undefined

/** Numbers the transactions, and holds for each table and row the last one that may have changed it. */
export interface ChangeLog extends Changes {
  recorderOf: RecorderOf
  /** Ends the transaction: what it changed is changed from now on. */
  committed: () => void
  rolledBack: () => void
  /** Finds out whether another process has committed anything. If so, everything may have changed. */
  detect: () => void
}

export interface ChangeLogOptions {
  /** Returns the `data_version` of the connection that writes. Only commits of other connections change it. */
  version: () => number
  /** Called before each answer, to run `detect` once per iteration of the event loop. */
  look: () => void
}

/** What the open transaction has changed. */
interface Recorded {
  /** Tables in which any row may have changed. */
  tables: Set<string>
  /** Tables to which rows were added. */
  grown: Set<string>
  rows: [table: string, id: RowId][]
  isEverything: boolean
}

const buckets = 2 ** 16

/**
 * Creates the log of the changes that one connection makes. Rows share buckets: the change of a row may count for another
 * row as well, but no change is missed.
 */
export function changeLog({ version, look }: ChangeLogOptions): ChangeLog {
  let last = 1
  let lastOfAll = 1
  let known: number | null = null
  const tables = new Map<string, { any: number; rows: number }>()
  const rows = new Float64Array(buckets)
  let recorded = nothingRecorded()
  const entryOf = (table: string) => tables.get(table) ?? { any: 0, rows: 0 }
  return {
    last: () => {
      look()
      return last
    },
    lastOf: (table) => {
      look()
      return Math.max(lastOfAll, tables.get(table)?.any ?? 0)
    },
    lastOfRow: (table, id) => {
      look()
      return Math.max(lastOfAll, tables.get(table)?.rows ?? 0, rows[bucketOf(table, id)] as number)
    },
    recorderOf: (db, sql, statement) => recorderOf(db, sql, statement, () => recorded),
    committed: () => {
      last++
      if (recorded.isEverything) lastOfAll = last
      for (const table of recorded.grown) tables.set(table, { ...entryOf(table), any: last })
      for (const [table, id] of recorded.rows) {
        tables.set(table, { ...entryOf(table), any: last })
        rows[bucketOf(table, id)] = last
      }
      for (const table of recorded.tables) tables.set(table, { any: last, rows: last })
      recorded = nothingRecorded()
    },
    rolledBack: () => {
      recorded = nothingRecorded()
    },
    detect: () => {
      const now = version()
      if (known !== null && now !== known) lastOfAll = ++last
      known = now
    },
  }
}

const nothingRecorded = (): Recorded => ({ tables: new Set(), grown: new Set(), rows: [], isEverything: false })

/** Returns the bucket of a row: 16 bits of a multiplicative hash. */
function bucketOf(table: string, id: RowId): number {
  let hash = typeof id === 'number' ? id : 0
  if (typeof id === 'string') for (let at = 0; at < id.length; at++) hash = Math.imul(hash, 31) + id.charCodeAt(at)
  // The first and the last letter tell most tables apart; tables that share buckets only cost a read.
  hash ^= table.charCodeAt(0) * 257 + table.charCodeAt(table.length - 1)
  return Math.imul(hash, 0x9e_37_79_b1) >>> 16
}

const target = /\b(?:insert(?: or \w+)? into|replace into|update(?: or \w+)?|delete from)\s+"?(\w+)"?/gi
const definition = /^\s*(create|alter|drop|vacuum|reindex|attach|detach)\b/i

/** Returns the recorder of a statement: of the rows that it returns, if those are all that it changes, or of its tables. */
function recorderOf(
  db: DatabaseSync,
  sql: string,
  statement: StatementSync,
  recorded: () => Recorded,
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

/** Triggers that only maintain the text index, or forbid changes. */
const harmless = /_(search_(updated|deleted)|no_(update|delete))$/

const hasTriggers = (db: DatabaseSync, table: string): boolean =>
  db
    .prepare(`select name from sqlite_schema where type = 'trigger' and tbl_name = ?`)
    .all(table)
    .some(({ name }) => !harmless.test(String(name)))

/** Returns the tables whose rows a change of this table may change, by foreign keys with an action. */
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
