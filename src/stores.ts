import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Config } from './config/config.ts'
import { databaseUrlOf, poolerUrlOf, resultsUrlOf } from './config/storage.ts'
import { resultsFolder } from './files/open.ts'
import { sealedResponses } from './idempotency/store.ts'
import { sealedKeys } from './oauth/keys/stored-keys.ts'
import { keepPrivate } from './private-files.ts'
import { ConfigError } from './startup-errors.ts'
import { type KeyNotices, openSealer, type StoredSealer } from './storage/data-keys/open.ts'
import type { SealedColumn } from './storage/data-keys/sealed-columns.ts'
import type { Database } from './storage/database.ts'
import { writeFileAtomically } from './storage/files/atomic-file.ts'
import { type MigrationOptions, migrate } from './storage/migrate.ts'
import { type OpenOptions, openDatabase } from './storage/open.ts'
import type { ResourceTable } from './storage/resource-tables/resource-columns.ts'
import { sqlitePath } from './storage/sqlite/path.ts'
import { sealedTicketKey } from './tls/session-tickets.ts'
import { sealedSecrets } from './webhooks/secrets.ts'

/** Every column that contains encrypted text. */
export const sealedColumns: readonly SealedColumn[] = [
  ...sealedKeys,
  ...sealedSecrets,
  sealedResponses,
  sealedTicketKey,
]

/** The open database with the migrated schema, the encryption for its secrets, and the data folder. */
export interface Stores {
  db: Database
  sealer: StoredSealer['sealer']
  /** Reloads the data keys, after another process has rotated the master key. */
  reloadKeys: StoredSealer['reload']
  dataDir: string
  /** The names of the executed migrations, followed by the statements for the definition's tables. */
  migrations: readonly string[]
}

/** Callbacks for the migration, new and changed keys, commits, database damage, and errors in background work. */
export interface StoreNotices
  extends Pick<MigrationOptions, 'onMigrated'>,
    Pick<OpenOptions, 'onError' | 'onDamage' | 'onCommit'> {
  /** Called with the open database and the master key before the migration; if it rejects, nothing is migrated. */
  beforeMigration?: (db: Database, masterKey: Buffer) => Promise<void>
  /** Called with the path of the key file after a master key was created. */
  onKeyCreated?: (path: string) => void
  onKeysChanged?: KeyNotices['onChanged']
  onMasterKeyReplaced?: KeyNotices['onReplaced']
}

/**
 * Opens the database and the keys, creates whatever is missing, and migrates the database, including the tables of
 * resources. If it rejects, nothing is left open.
 */
export async function openStores(config: Config, tables: readonly ResourceTable[] = []): Promise<Stores> {
  await checkAddress(config)
  return openStoresIn(config, dataFolder(config), { migrating: { tables } })
}

/** Throws `ConfigError` if a connection pooler is configured without the server behind it. */
export async function checkAddress({ storage: { databaseUrl, directUrl } }: Config): Promise<void> {
  if (databaseUrl === null || directUrl !== null || sqlitePath(databaseUrl) !== null) return
  const { connectToServer } = await import('./storage/postgres/pooler.ts')
  await (await connectToServer(databaseUrl, 'plinth')).end()
}

/** How the threads of a process share its database; by default, a single thread uses it. */
export type Sharing = Pick<OpenOptions, 'shared' | 'divisor'>

/**
 * Works like `openStores`, but expects a folder that `dataFolder` has created, and migrates only if `migrating` is set.
 * `migrating.version` is the definition's version.
 */
export async function openStoresIn(
  config: Config,
  dataDir: string,
  {
    migrating,
    ...sharing
  }: Sharing & { migrating?: Pick<MigrationOptions, 'version'> & { tables: readonly ResourceTable[] } },
  notices: StoreNotices = {},
): Promise<Stores> {
  const { beforeMigration, onKeyCreated, onMigrated, onKeysChanged, onMasterKeyReplaced } = notices
  const { onError = () => {}, onDamage = () => {}, onCommit } = notices
  const key = masterKey(config, dataDir, onKeyCreated)
  const poolerUrl = poolerUrlOf(config.storage)
  const db = await openDatabase(databaseUrlOf(config.storage), {
    ...{ ...sharing, poolerUrl, onError, onDamage },
    ...(onCommit && { onCommit }),
  })
  try {
    await beforeMigration?.(db, key)
    const migrations = migrating ? await migrate(db, { ...migrating, onMigrated }) : []
    const { sealer, reload } = await openSealer(db, {
      masterKey: () => existingMasterKey(config.storage.masterKey, dataDir) ?? key,
      ...{ columns: sealedColumns, now: Date.now, random: (size) => randomBytes(size) },
      ...{ onChanged: onKeysChanged, onReplaced: onMasterKeyReplaced, onError },
    })
    return { db, dataDir, sealer, reloadKeys: reload, migrations }
  } catch (error) {
    await db.close()
    throw error
  }
}

/**
 * Creates the data folder. Removes other users' access to the folder, the database and the results, wherever they are
 * stored.
 */
export function dataFolder(config: Config): string {
  const dataDir = resolve(config.storage.dataDir)
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const database = sqlitePath(databaseUrlOf(config.storage))
  const files =
    database === null
      ? []
      : ['', '-wal', '-shm', '-journal', '-search', '-search-wal', '-search-shm'].map((ending) => database + ending)
  const results = resultsFolder(resultsUrlOf(config.storage))
  keepPrivate(config.production, dataDir, ...files, ...(results === null ? [] : [results]))
  return dataDir
}

const keyBytes = 32
/** The file of the master key in the data folder. */
export const masterKeyFile = 'master.key'

/**
 * Returns the key that encrypts secrets at rest: the configured key, or the key in `folder`, which is created on the
 * first run with mode 0600. In production, throws `ConfigError` if other users can access the key file and its
 * permissions cannot be changed.
 */
export function masterKey(
  { storage, production }: Config,
  folder: string,
  onCreated: (path: string) => void = () => {},
): Buffer {
  const path = join(folder, masterKeyFile)
  if (storage.masterKey === null) {
    if (!existsSync(path)) {
      writeFileAtomically(path, randomBytes(keyBytes).toString('base64'), { mode: 0o600, replace: false })
      onCreated(path)
    }
    keepPrivate(production, path)
  }
  const key = existingMasterKey(storage.masterKey, folder)
  if (key === undefined) throw new Error(`${path} was removed`)
  return key
}

/** Returns the configured key (PLINTH_MASTER_KEY), or the key in `folder`; undefined if there is none yet. */
export function existingMasterKey(given: string | null, folder: string): Buffer | undefined {
  if (given !== null) return masterKeyBytes(given)
  return masterKeyIn(join(folder, masterKeyFile))
}

/**
 * Returns the master key in a file; undefined if there is no such file. Throws `ConfigError` if the file contains
 * anything else.
 */
export function masterKeyIn(path: string): Buffer | undefined {
  if (!existsSync(path)) return undefined
  const key = masterKeyBytes(readFileSync(path, 'utf8').trim())
  if (key.length !== keyBytes) throw new ConfigError(`${path} does not hold a key of ${keyBytes} bytes`)
  return key
}

/** Decodes a master key, which is hex or base64; the caller checks its length. */
export const masterKeyBytes = (text: string): Buffer =>
  Buffer.from(text, text.length === keyBytes * 2 ? 'hex' : 'base64')
