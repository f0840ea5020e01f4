import { randomUUID } from 'node:crypto'
import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { CamelCasePlugin, Kysely } from 'kysely'
import type { Database, OnCommit, Queryable, ReadOnlyDatabase } from '../database.ts'
import { createPrivateFile } from '../files/atomic-file.ts'
import { newTag } from '../row-changes/row-log.ts'
import { scanThreads } from '../scans/scan-threads.ts'
import { type ScannerOptions, scanner } from '../scans/scanner.ts'
import type { Tables } from '../tables/tables.ts'
import type { Unindexed } from '../text-index/builder.ts'
import { threadLock, threadLockMemory, unlockFor } from '../thread-lock.ts'
import type { SetTimer } from '../timer.ts'
import { changeMemory } from './change-numbers.ts'
import type { RecorderOf } from './change-recorder.ts'
import { changeLog, countsOf } from './changes.ts'
import { type DamageGuard, damageGuard, damageMemory } from './damage.ts'
import {
  openSqliteFile,
  rowsOfStatement,
  runStatement,
  type SqliteHandle,
  sqliteDialect,
  sqliteValues,
} from './driver.ts'
import { sqlite } from './engine.ts'
import { groupCommit } from './group-commit.ts'
import { logSync } from './log-sync.ts'
import { readOnlyLocation } from './path.ts'
import { pendingChanges, publishing } from './publishing.ts'
import { type SharedReads, sharedReads } from './shared-reads.ts'
import { sqliteTextIndex, unindexedAtMost } from './text-index.ts'

const kysely = (handle: SqliteHandle, guard?: DamageGuard) =>
  new Kysely<Tables>({ dialect: sqliteDialect(handle, guard), plugins: [new CamelCasePlugin()] })

/** Memory shared by the threads that use one SQLite file. */
export interface SqliteMemory {
  lock: SharedArrayBuffer
  changes: SharedArrayBuffer
  damage: SharedArrayBuffer
}

export const sqliteMemory = (): SqliteMemory => ({
  ...{ lock: threadLockMemory(), changes: changeMemory(), damage: damageMemory() },
})

/** Releases the write lock if a thread that has ended held it. */
export const releaseThread = ({ lock }: SqliteMemory, thread: number): void => unlockFor(lock, thread)

export interface SqliteOptions {
  /** Set if several threads of this process use the file; `thread` is the number of this one, at least 1. */
  shared?: { memory: SqliteMemory; thread: number } | null
  setTimer: SetTimer
  onCommit?: OnCommit
  /** Receives errors from background work that no caller awaits. */
  onError?: (error: unknown) => void
  /**
   * Called once, when a statement encounters a damaged page. From then on, no thread of the process writes to the file.
   */
  onDamage?: (error: unknown, path: string) => void
  /** How far the text index may lag behind; by default, 10,000 new rows and 1,000 changes. */
  unindexed?: Unindexed
}

/** Opens a SQLite file, or creates it: one connection for writes, one for reads, and threads for scans. */
export function openSqlite(url: string, path: string, given: SqliteOptions): Database {
  const { setTimer, onError = () => {}, onCommit = () => {}, unindexed = unindexedAtMost, shared = null } = given
  const lock = shared && threadLock(shared.memory.lock, shared.thread)
  const guard = damageGuard((error) => given.onDamage?.(error, path), shared?.memory.damage)
  const numbers = { ...countsOf(() => ({ writer, reader })), look: () => reads.look() }
  const changes = changeLog({ ...numbers, shared: shared && lock && { memory: shared.memory.changes, lock } })
  const { writer, reader } = openFiles(path, changes.recorderOf)
  const tx = kysely(writer, guard)
  const reads = sharedReads(reader, changes.detect)
  const threads = scanThreads(path, setTimer)
  const execute: ScannerOptions['execute'] = ({ sql, parameters }, signal) =>
    threads.run({ sql, values: sqliteValues(parameters) }, signal).catch(guard.rethrow)
  const scans = scanner({ running: 2, runningPerAccount: 1, setTimer, execute })
  const log = logSync(path)
  const prepare = preparer(reader, writer, reads, guard)
  const logged = pendingChanges(tx, { prepare, tag: newTag(randomUUID) })
  const commits = { ...publishing(changes, reads, logged), lock, sync: log.sync, onSynced: onCommit }
  const write = guardedWrite(groupCommit(writer, tx, commits), guard)
  const access = { read: kysely(reader, guard), write, scan: scans.scan }
  const textIndex = sqliteTextIndex({ ...access, path, setTimer, newToken: randomUUID, unindexed, onError })
  const database: Database = {
    ...access,
    engine: sqlite,
    url,
    textIndex,
    prepare,
    prepareInsert: insertPreparer(writer, tx),
    get reserved() {
      return database
    },
    rowLog: logged.log,
    changes,
    measure: () => ({ pools: [], walBytes: statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0 }),
    ping: async () => {
      guard.refuse()
      reader.statement('select 1').run.get()
    },
    close: async () => {
      await Promise.all([textIndex.close(), scans.close()])
      await threads.close()
      log.close()
      closeFiles(reader, writer, guard)
    },
  }
  return database
}

/** Opens an existing SQLite file for reading. */
export function openSqliteReadOnly(url: string, path: string): ReadOnlyDatabase {
  const location = readOnlyLocation(path)
  const handle = openSqliteFile(location, { readOnly: true })
  const isUnused = location !== path
  return { engine: sqlite, url, isUnused, read: kysely(handle), close: async () => handle.db.close() }
}

/** Opens the connections for writes and for reads. */
function openFiles(path: string, recorderOf: RecorderOf) {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  // SQLite creates the -wal and -shm files with the permissions of the database file.
  createPrivateFile(path)
  const writer = openSqliteFile(path, { recorderOf })
  // Group commit waits for other processes and syncs the log without blocking the event loop.
  writer.db.exec('pragma busy_timeout = 0; pragma synchronous = normal')
  return { writer, reader: openSqliteFile(path, { readOnly: true }) }
}

/** Rejects every write once the guard has recorded damage. */
const guardedWrite =
  (write: Database['write'], guard: DamageGuard): Database['write'] =>
  async (unit) => {
    guard.refuse()
    return write(unit).catch(guard.rethrow)
  }

/**
 * Closes the connections. The last one checkpoints the WAL unless it is read-only, so a damaged file's reader is closed
 * last.
 */
function closeFiles(reader: SqliteHandle, writer: SqliteHandle, guard: DamageGuard): void {
  const handles = guard.isDamaged() ? [writer, reader] : [reader, writer]
  for (const { db } of handles) db.close()
}

const preparer =
  (reader: SqliteHandle, writer: SqliteHandle, reads: SharedReads, guard: DamageGuard): Database['prepare'] =>
  (query) => {
    const text = query.compile().sql
    return {
      all: (values) => {
        try {
          reads.begin()
          return rowsOfStatement(reader.statement(text), values) as never
        } catch (error) {
          return guard.rethrow(error)
        }
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
      const { lastInsertRowid } = runStatement(writer.statement(insert), values)
      const [result] = writer.statement(evaluate).run.get() as unknown as [number]
      return { id: Number(lastInsertRowid), result }
    }
  }

async function runPrepared(handle: SqliteHandle, text: string, values: readonly unknown[]) {
  const statement = handle.statement(text)
  if (statement.toRow === null) {
    return { rows: [], changed: Number(runStatement(statement, values).changes) }
  }
  const rows = rowsOfStatement(statement, values)
  return { rows, changed: rows.length }
}
