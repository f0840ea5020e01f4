import { existsSync, readdirSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { openResults, resultsFolder } from '../files/open.ts'
import { migrationNames } from '../storage/migrate.ts'
import { sqlitePath } from '../storage/sqlite/path.ts'
import { masterKeyFile } from '../stores.ts'
import type { Head } from './archive/manifest.ts'
import { BackupRefused } from './errors.ts'
import { type BackupSource, keyFingerprint } from './place.ts'

/**
 * The target of a restore. `backupsUrl` is the folder of scheduled backups, which may be inside the target's data
 * folder.
 */
export interface BackupTarget {
  place: BackupSource
  backupsUrl: string
}

const shown = 5
const listed = (names: readonly string[]) =>
  `${names.slice(0, shown).join(', ')}${names.length > shown ? `, … (${names.length})` : ''}`

/** Throws `BackupRefused`, which names the existing data, if the target is not empty. */
export async function refuseFilledTarget({ place, backupsUrl }: BackupTarget): Promise<void> {
  const { dataDir, databaseUrl, resultsUrl } = place
  const path = sqlitePath(databaseUrl)
  const files = path === null ? [] : ['', '-wal', '-shm', '-journal'].map((ending) => path + ending).filter(existsSync)
  if (files.length > 0) throw new BackupRefused(`A database exists: ${listed(files)}. A restore overwrites nothing`)
  const names = existsSync(dataDir) ? readdirSync(dataDir) : []
  const others = names.filter((name) => !allowedNames(dataDir, resultsUrl, backupsUrl).includes(name))
  if (others.length > 0) {
    throw new BackupRefused(`The data folder ${dataDir} is not empty: ${listed(others)}. A restore overwrites nothing`)
  }
  if (resultsFolder(resultsUrl) === null || existsSync(resultsFolder(resultsUrl) as string)) {
    const keys = await (await openResults(resultsUrl)).keys()
    if (keys.length > 0)
      throw new BackupRefused(`There are results at ${resultsUrl}: ${listed(keys)}. A restore overwrites nothing`)
  }
}

/** Returns the names that a data folder may already contain before a restore. Results are checked separately. */
function allowedNames(dataDir: string, resultsUrl: string, backupsUrl: string): string[] {
  const folders = [resultsFolder(resultsUrl), resultsFolder(backupsUrl)].filter((folder) => folder !== null)
  return ['lost+found', masterKeyFile, ...folders.map((folder) => relative(dataDir, resolve(folder)))]
}

/** Throws `BackupRefused` if this backup cannot be restored to this target. */
export async function refuseMismatch(head: Head, { place }: BackupTarget): Promise<void> {
  const engine = sqlitePath(place.databaseUrl) === null ? 'postgres' : 'sqlite'
  if (head.engine !== engine) {
    throw new BackupRefused(
      `The backup contains a ${engineName(head.engine)} database, but DATABASE_URL names a ${engineName(engine)} database: ` +
        'a backup can only be restored to the engine that it was made with',
    )
  }
  const newer = head.migrations.filter((name) => !migrationNames.includes(name))
  if (newer.length > 0) {
    throw new BackupRefused(
      `The backup was made by a newer release, ${head.plinth} (it has ${listed(newer)}): install that release`,
    )
  }
  refuseOtherKey(head, place)
  if (head.postgres !== null) {
    const { refuseFilledDatabase } = await import('./database/postgres.ts')
    await refuseFilledDatabase(place.databaseUrl, head.postgres.schema)
  }
}

export const engineName = (engine: Head['engine']): string => (engine === 'sqlite' ? 'SQLite' : 'PostgreSQL')

/** Throws `BackupRefused` unless the restored service would use the master key of the backup. */
function refuseOtherKey({ masterKey }: Head, place: BackupSource): void {
  if (masterKey === null) return
  const file = join(place.dataDir, masterKeyFile)
  const existing = keyFingerprint(place)
  if (existing === null && masterKey.isIncluded) return
  if (existing === null) {
    throw new BackupRefused(
      `The backup does not contain the master key: set PLINTH_MASTER_KEY, or put the key into ${file}, and run this again`,
    )
  }
  if (existing !== masterKey.fingerprint) {
    const source = place.masterKey === null ? file : 'PLINTH_MASTER_KEY'
    throw new BackupRefused(
      `${source} is not the master key of the backup, whose fingerprint is ${masterKey.fingerprint}`,
    )
  }
}
