import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../config/config.ts'
import { databaseUrlOf, resultsUrlOf } from '../config/storage.ts'
import { sealer } from '../storage/encryption.ts'
import { existingMasterKey, masterKeyFile } from '../stores.ts'

/**
 * Where a service keeps its data. Backups read from it, and restores write to it. It is plain data, so that it can be
 * sent to a thread.
 */
export interface Place {
  databaseUrl: string
  resultsUrl: string
  dataDir: string
  /** The master key in PLINTH_MASTER_KEY; null if it is in the data folder. */
  masterKey: string | null
}

/** Returns where the configured service keeps its data. `dataDir` must be absolute. */
export const placeOf = ({ storage }: Config, dataDir: string): Place => ({
  ...{ databaseUrl: databaseUrlOf(storage), resultsUrl: resultsUrlOf(storage) },
  ...{ dataDir, masterKey: storage.masterKey },
})

/**
 * Returns a short digest that distinguishes master keys without revealing anything about them; null if there is no key
 * yet.
 */
export function keyFingerprint({ masterKey, dataDir }: Place): string | null {
  const key = existingMasterKey(masterKey, dataDir)
  return key === undefined ? null : sealer(key, randomBytes).digest('fingerprint', 'backup').slice(0, 16)
}

const certificateFiles = ['authority.crt', 'authority.key', 'server.pem']

/** Returns all possible key files: their names in a backup, their paths in a data folder, and their modes. */
export function keyFiles(dataDir: string): { name: string; path: string; mode: number }[] {
  const certificates = certificateFiles.map((name) => ({
    ...{ name, path: join(dataDir, 'certificates', name), mode: name.endsWith('.crt') ? 0o644 : 0o600 },
  }))
  return [{ name: masterKeyFile, path: join(dataDir, masterKeyFile), mode: 0o600 }, ...certificates]
}

/** Returns those key files that exist and that the service uses. */
export const existingKeyFiles = ({ dataDir, masterKey }: Place) =>
  keyFiles(dataDir).filter(({ name, path }) => existsSync(path) && (name !== masterKeyFile || masterKey === null))
