import { open, stat } from 'node:fs/promises'
import { sql } from 'kysely'
import { count, sizeText } from '../backup/describe.ts'
import { errorField } from '../storage/engine.ts'
import { sqlitePath } from '../storage/sqlite/path.ts'
import { type Check, type DatabaseContext, fail, pass, warn } from './check.ts'

const maxWalBytes = 256 * 1024 ** 2
const maxFreeBytes = 256 * 1024 ** 2
const maxFreeShare = 0.5
const maxProblems = 5
const sqliteCorrupt = 11

/** The offset of the read version in the file header; 2 means that the file uses a write-ahead log. */
const versionOffset = 19

async function isWal({ read, isUnused }: DatabaseContext['db'], path: string): Promise<boolean> {
  if (isUnused) return isWalInHeader(path)
  const { rows } = await sql<{ journal_mode: string }>`pragma journal_mode`.execute(read.withoutPlugins())
  return rows[0]?.journal_mode === 'wal'
}

/**
 * Reads the journal mode from the header, because SQLite reports none for a file opened as immutable. Call this only
 * for such a file: closing any other file would release the locks that SQLite in this process holds on it (POSIX
 * fcntl).
 */
async function isWalInHeader(path: string): Promise<boolean> {
  const file = await open(path)
  try {
    const { buffer } = await file.read(Buffer.alloc(1), 0, 1, versionOffset)
    return buffer[0] === 2
  } finally {
    await file.close()
  }
}

const sizeOf = (path: string) =>
  stat(path).then(
    ({ size }) => size,
    () => 0,
  )

/** Returns descriptions of the damage; empty if there is none. */
async function damageIn(read: DatabaseContext['db']['read']): Promise<string[]> {
  const statement = sql<Record<string, string>>`pragma integrity_check(${sql.raw(String(maxProblems))})`
  try {
    const { rows } = await statement.execute(read.withoutPlugins())
    return rows.flatMap((row) => Object.values(row)).filter((text) => text !== 'ok')
  } catch (error) {
    // SQLite throws this error if it cannot read the schema.
    if (errorField(error, 'errcode') !== sqliteCorrupt) throw error
    return [(error as Error).message]
  }
}

/** Checks of a SQLite file; they do not apply to PostgreSQL. */
export const sqliteChecks: readonly Check<DatabaseContext>[] = [
  {
    id: 'database.journal',
    area: 'database',
    title: 'Write-ahead log',
    rule: 'SQLite: fails if the file has no write-ahead log; warns above 256 MiB',
    run: async ({ db }) => {
      const path = sqlitePath(db.url)
      if (path === null) return null
      if (!(await isWal(db, path))) {
        return fail(`${path} has a rollback journal`, 'Restart the service, which sets journal_mode = WAL')
      }
      const bytes = await sizeOf(`${path}-wal`)
      if (bytes <= maxWalBytes) return pass(sizeText(bytes))
      return warn(
        `${path}-wal has ${sizeText(bytes)}, because a reader prevents a checkpoint`,
        'End long reads of the file, such as an open sqlite3 session or a copy, or restart the service',
      )
    },
  },
  {
    id: 'database.free-pages',
    area: 'database',
    title: 'Unused space',
    rule: 'SQLite: warns if more than half of the file, and more than 256 MiB, is unused',
    run: async ({ db: { read, url } }) => {
      const path = sqlitePath(url)
      if (path === null) return null
      const { rows } = await sql<{ pages: number; free: number; size: number }>`
        select (select page_count from pragma_page_count) as pages,
          (select freelist_count from pragma_freelist_count) as free,
          (select page_size from pragma_page_size) as size`.execute(read)
      const { pages, free, size } = rows[0] ?? { pages: 0, free: 0, size: 0 }
      const detail = `${sizeText(free * size)} of ${sizeText(pages * size)}`
      if (free * size <= maxFreeBytes || free <= pages * maxFreeShare) return pass(detail)
      return warn(detail, `Stop the service, and run \`sqlite3 ${path} vacuum\``)
    },
  },
  {
    id: 'database.integrity',
    area: 'database',
    title: 'File integrity',
    rule: 'SQLite, `--deep`: fails if `PRAGMA integrity_check` or `foreign_key_check` reports anything',
    deep: 'only',
    run: async ({ db: { read, url } }) => {
      if (sqlitePath(url) === null) return null
      const cure = 'Stop the service, keep a copy of the file, and restore a backup with `plinth restore`'
      const damaged = await damageIn(read)
      if (damaged.length > 0) return fail(damaged.slice(0, maxProblems).join('; '), cure)
      const { rows: orphans } = await sql<{ table: string }>`
        select "table" from pragma_foreign_key_check limit ${maxProblems}`.execute(read)
      if (orphans.length === 0) return pass('No damage, and every reference has its row')
      const tables = [...new Set(orphans.map(({ table }) => table))]
      return fail(`${count(orphans.length, 'row')} or more of ${tables.join(', ')} refer to missing rows`, cure)
    },
  },
]
