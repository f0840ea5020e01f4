import { existsSync, mkdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { createPrivateFile } from '../files/atomic-file.ts'
import { sqlitePath } from './path.ts'

/** Thrown if another process uses the same database. */
export class DatabaseInUse extends Error {
  override name = 'DatabaseInUse'
  readonly exitCode = 2
}

const sqliteBusy = 5

/**
 * Locks a SQLite file for one node and returns a function that unlocks it; null for PostgreSQL, which any number of
 * processes may share. If the file is already locked, throws `DatabaseInUse` with the id and start time of the process
 * that holds the lock.
 *
 * Uses SQLite's own lock on a small file next to the database, so that other commands can still open the database
 * itself. The kernel releases the lock however the process ends. Nothing else in the process may open the lock file,
 * because closing it would release the lock (POSIX fcntl).
 */
export function lockSqlite(url: string, now: () => number): (() => void) | null {
  const filePath = sqlitePath(url)
  if (filePath === null) return null
  const path = realPath(filePath)
  const [lockFile, ownerFile] = [`${path}.lock`, `${path}.pid`]
  createPrivateFile(lockFile)
  const lock = new DatabaseSync(lockFile, { timeout: 0 })
  try {
    // The lock file stays empty, so it needs no journal on disk.
    lock.exec('pragma journal_mode = memory; begin exclusive')
    writeFileSync(ownerFile, `${process.pid} ${new Date(now()).toISOString()}\n`, { mode: 0o600 })
  } catch (error) {
    lock.close()
    const isBusy = ((error as { errcode?: number }).errcode ?? 0) % 256 === sqliteBusy
    throw isBusy ? new DatabaseInUse(`${path} is used by ${ownerIn(ownerFile)}: stop it first`) : error
  }
  return () => {
    rmSync(ownerFile, { force: true })
    lock.close()
  }
}

/** Resolves symbolic links, so that each database file has only one lock. */
function realPath(path: string): string {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  return existsSync(path) ? realpathSync(path) : join(realpathSync(dirname(path)), basename(path))
}

/**
 * Describes the owner of the lock. The file is written just after the lock is acquired, so it may be missing for a
 * moment.
 */
function ownerIn(file: string): string {
  const [, pid, since] = /^(\d+) (\S+)\n$/.exec(existsSync(file) ? readFileSync(file, 'utf8') : '') ?? []
  return pid === undefined ? 'another process' : `process ${pid}, started at ${since}`
}
