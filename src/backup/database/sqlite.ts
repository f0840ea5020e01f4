import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { backup, DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { createPrivateFile } from '../../storage/files/atomic-file.ts'
import { BackupBroken, BackupRefused } from '../errors.ts'
import { type CopyOptions, type DatabaseCopy, readContents } from './copy.ts'

const lockWaitMs = 5_000
/**
 * The number of pages that one step copies: 512 KiB. Between steps, other work can use the disk, and the copy can be
 * interrupted.
 */
const pagesPerStep = 256

/**
 * Copies a SQLite file; services may continue to write. The copy runs in a read transaction: without it, each write
 * would make SQLite start the copy again. In WAL mode, a read transaction does not delay writers.
 */
export async function copySqlite(path: string, now: () => number, options: CopyOptions): Promise<DatabaseCopy> {
  const { folder, signal, onProgress } = options
  if (!existsSync(path)) throw new BackupRefused(`There is no database at ${path}, so there is nothing to back up`)
  const file = join(folder, 'database.db')
  createPrivateFile(file)
  const source = new DatabaseSync(path, { readOnly: true, timeout: lockWaitMs })
  let takenAt: number
  try {
    takenAt = now()
    source.exec('begin; select 1 from sqlite_schema')
    const pageBytes = Number(source.prepare('pragma page_size').get()?.page_size)
    await backup(source, file, {
      rate: pagesPerStep,
      progress: ({ totalPages, remainingPages }) => {
        signal.throwIfAborted()
        onProgress((totalPages - remainingPages) * pageBytes, totalPages * pageBytes)
      },
    })
  } finally {
    source.close()
  }
  // A small database is copied in a single step, for which SQLite reports no progress.
  const { size } = statSync(file)
  onProgress(size, size)
  signal.throwIfAborted()
  return { engine: 'sqlite', file, takenAt, postgres: null, ...(await contentsOf(file, takenAt)) }
}

/** Opens a copy without creating any files next to it. Nothing else may use the copy. */
function openCopy(file: string): DatabaseSync {
  const db = new DatabaseSync(new URL(`${pathToFileURL(file)}?immutable=1`), { readOnly: true })
  db.exec('pragma trusted_schema = off')
  return db
}

async function contentsOf(file: string, takenAt: number) {
  const db = openCopy(file)
  try {
    const names = db.prepare(
      `select name from sqlite_schema where type = 'table' and name not like 'sqlite\\_%' escape '\\'`,
    )
    const tables = names.all().map(({ name }): [string, string] => [String(name), `"${name}"`])
    if (!tables.some(([name]) => name === 'migrations')) throw new BackupRefused('The database has no tables of Plinth')
    return await readContents((sql) => db.prepare(sql).all(), tables.sort(), takenAt)
  } finally {
    db.close()
  }
}

/** Throws `BackupBroken` if the file is not a SQLite database, or is damaged. */
export function checkSqlite(file: string): void {
  const problems = problemsOf(file)
  if (problems.length > 0) throw new BackupBroken(`its database is damaged: ${problems.slice(0, 3).join('; ')}`)
}

function problemsOf(file: string): string[] {
  try {
    const db = openCopy(file)
    try {
      const rows = db.prepare('pragma integrity_check').all()
      return rows.map(({ integrity_check: text }) => String(text)).filter((text) => text !== 'ok')
    } finally {
      db.close()
    }
  } catch (error) {
    return [(error as Error).message]
  }
}
