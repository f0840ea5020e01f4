import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { pathToFileURL } from 'node:url'
import { CamelCasePlugin, Kysely } from 'kysely'
import type { Database, OnCommit, Queryable, ReadOnlyDatabase } from '../database.ts'
import { createPrivateFile } from '../files/atomic-file.ts'
import type { SetTimer } from '../scans/scan.ts'
import { scanThreads } from '../scans/scan-threads.ts'
import { type ScannerOptions, scanner } from '../scans/scanner.ts'
import type { Tables } from '../tables/tables.ts'
import type { Unindexed } from '../text-index/builder.ts'
import {
  openSqliteFile,
  rowsOfStatement,
  type SharedReads,
  type SqliteHandle,
  sharedReads,
  sqliteDialect,
  sqliteValues,
} from './driver.ts'
import { sqlite } from './engine.ts'
import { groupCommit } from './group-commit.ts'
import { sqliteTextIndex, unindexedAtMost } from './text-index.ts'

const kysely = (handle: SqliteHandle) =>
  new Kysely<Tables>({ dialect: sqliteDialect(handle), plugins: [new CamelCasePlugin()] })

export interface SqliteOptions {
  setTimer: SetTimer
  onCommit?: OnCommit
  /** Receives errors from background work that no caller awaits. */
  onError?: (error: unknown) => void
  /** How far the text index may lag behind; by default, 10,000 new rows and 1,000 changes. */
  unindexed?: Unindexed
}

/** Opens a SQLite file, or creates it: one connection for writes, one for reads, and threads for scans. */
export function openSqlite(url: string, path: string, options: SqliteOptions): Database {
  const { setTimer, onError = () => {}, onCommit = () => {}, unindexed = unindexedAtMost } = options
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  // SQLite creates the -wal and -shm files with the permissions of the database file.
  createPrivateFile(path)
  const writer = openSqliteFile(path)
  // Group commit waits for other processes asynchronously; a busy timeout would block the event loop.
  writer.db.exec('pragma busy_timeout = 0')
  const reader = openSqliteFile(path, { readOnly: true })
  const tx = kysely(writer)
  const reads = sharedReads(reader)
  const threads = scanThreads(path, setTimer)
  const execute: ScannerOptions['execute'] = ({ sql, parameters }, signal) =>
    threads.run({ sql, values: sqliteValues(parameters) }, signal)
  const scans = scanner({ running: 2, runningPerAccount: 1, setTimer, execute })
  const afterCommit = (units: number, seconds: number) => {
    reads.end()
    onCommit(units, seconds)
  }
  const access = { read: kysely(reader), write: groupCommit(writer, tx, afterCommit), scan: scans.scan }
  const textIndex = sqliteTextIndex({ ...access, path, setTimer, newToken: randomUUID, unindexed, onError })
  const database: Database = {
    ...access,
    engine: sqlite,
    url,
    textIndex,
    prepare: preparer(reader, writer, reads),
    prepareInsert: insertPreparer(writer, tx),
    get reserved() {
      return database
    },
    generation: reads.generation,
    measure: () => ({ pools: [], walBytes: statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0 }),
    ping: async () => void reader.statement('select 1').run.get(),
    close: async () => {
      await Promise.all([textIndex.close(), scans.close()])
      await threads.close()
      reader.db.close()
      writer.db.close()
    },
  }
  return database
}

/**
 * Opens an existing SQLite file for reading. Without a `-wal` file no process has the database open. It is then opened
 * as a file that does not change, because SQLite would create the files of the write-ahead log otherwise.
 */
export function openSqliteReadOnly(url: string, path: string): ReadOnlyDatabase {
  const location = existsSync(`${path}-wal`) ? path : `${pathToFileURL(path)}?immutable=1`
  const handle = openSqliteFile(location, { readOnly: true })
  return { engine: sqlite, url, read: kysely(handle), close: async () => handle.db.close() }
}

const preparer =
  (reader: SqliteHandle, writer: SqliteHandle, reads: SharedReads): Database['prepare'] =>
  (query) => {
    const text = query.compile().sql
    return {
      all: (values) => {
        reads.begin()
        return rowsOfStatement(reader.statement(text), values) as never
      },
      in: (_tx, values) => runPrepared(writer, text, values) as never,
    }
  }

const insertPreparer =
  (writer: SqliteHandle, tx: Queryable): Database['prepareInsert'] =>
  (query, expression) => {
    const insert = query.compile().sql
    const evaluate = tx.selectNoFrom(expression.as('result')).compile().sql
    // Does not use RETURNING, which takes longer than the insert itself.
    return async (_tx, values) => {
      const { lastInsertRowid } = writer.statement(insert).run.run(...sqliteValues(values))
      const [result] = writer.statement(evaluate).run.get() as unknown as [number]
      return { id: Number(lastInsertRowid), result: result === 1 }
    }
  }

async function runPrepared(handle: SqliteHandle, text: string, values: readonly unknown[]) {
  const statement = handle.statement(text)
  if (statement.toRow === null) {
    return { rows: [], changed: Number(statement.run.run(...sqliteValues(values)).changes) }
  }
  const rows = rowsOfStatement(statement, values)
  return { rows, changed: rows.length }
}
