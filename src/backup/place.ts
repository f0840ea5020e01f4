import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../config/config.ts'
import { databaseUrlOf, resultsUrlOf } from '../config/storage.ts'
import { fingerprintOf } from '../storage/encryption.ts'
import { existingMasterKey, masterKeyFile } from '../stores.ts'

/**
 * Where a service keeps its data. Backups read from there, and restores write there. Contains only plain data, so that
 * it can be sent to a thread.
 */
export interface BackupSource {
  databaseUrl: string
  resultsUrl: string
  dataDir: string
  /** The master key in PLINTH_MASTER_KEY; null if it is in the data folder. */
  masterKey: string | null
}

/** Returns where the configured service keeps its data. `dataDir` must be absolute. */
export const placeOf = ({ storage }: Config, dataDir: string): BackupSource => ({
  ...{ databaseUrl: databaseUrlOf(storage), resultsUrl: resultsUrlOf(storage) },
  ...{ dataDir, masterKey: storage.masterKey },
})

/** Returns the master key; undefined if there is none yet. */
export const masterKeyOf = ({ masterKey, dataDir }: BackupSource): Buffer | undefined =>
  existingMasterKey(masterKey, dataDir)

/** Returns the fingerprint of the master key; null if there is none yet. */
export function keyFingerprint(place: BackupSource): string | null {
  const key = masterKeyOf(place)
  return key === undefined ? null : fingerprintOf(key)
}

const certificateFiles = ['authority.crt', 'authority.key', 'server.pem']

/** Returns all possible key files: their names in a backup, their paths in a data folder, and their modes. */
export function keyFiles(dataDir: string): { name: string; path: string; mode: number }[] {
  const certificates = certificateFiles.map((name) => ({
    ...{ name, path: join(dataDir, 'certificates', name), mode: name.endsWith('.crt') ? 0o644 : 0o600 },
  }))
  return [{ name: masterKeyFile, path: join(dataDir, masterKeyFile), mode: 0o600 }, ...certificates]
}

/** Returns the key files that exist and that the service uses. */
export const existingKeyFiles = ({ dataDir, masterKey }: BackupSource) =>
  keyFiles(dataDir).filter(({ name, path }) => existsSync(path) && (name !== masterKeyFile || masterKey === null))
