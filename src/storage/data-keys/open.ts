import { sql } from 'kysely'
import type { Database, Queryable } from '../database.ts'
import {
  type DataKeys,
  derivedKeys,
  fingerprintOf,
  firstSealId,
  keyObject,
  type Sealer,
  sealer,
  sealerWith,
} from '../encryption.ts'
import { iso, type RandomBytes } from '../ids.ts'
import type { DataKeyRow } from '../tables/administration.ts'
import { refuseOtherKey, type SealedColumn } from './sealed-columns.ts'
import { activeKey, type DataKey, newDataKey, storedDataKeys, unwrapped, wrapped } from './stored.ts'

const digestId = 2

/** The ids of the loaded data keys, and of the key that encrypts new secrets. */
export interface LoadedKeys {
  ids: number[]
  sealId: number
}

export interface KeyNotices {
  /** Called after changed data keys have been loaded from the database. */
  onChanged?: ((keys: LoadedKeys) => void) | undefined
  /** Called when the database no longer accepts the master key. The loaded data keys stay in use. */
  onReplaced?: (() => void) | undefined
  onError?: ((error: unknown) => void) | undefined
}

export interface SealerOptions extends KeyNotices {
  /** Returns the master key; called again when the database no longer accepts it. */
  masterKey: () => Uint8Array
  /**
   * The columns with encrypted values. When a database of a release without data keys is first opened, one of these
   * values is decrypted, to detect a wrong master key.
   */
  columns: readonly SealedColumn[]
  now: () => number
  random: RandomBytes
}

/** A sealer whose keys are stored in the database. */
export interface StoredSealer {
  sealer: Sealer
  /**
   * Reloads the data keys. Without a reload, new keys are loaded only when `open` encounters a key that is not loaded.
   */
  reload: () => Promise<void>
}

/**
 * Opens the data keys in the database; creates them on the first run. Throws `Unsealable` if the database has a
 * different master key.
 */
export async function openSealer(db: Database, options: SealerOptions): Promise<StoredSealer> {
  const { masterKey, random, onChanged = () => {}, onReplaced = () => {}, onError = () => {} } = options
  let own = masterKey()
  let rows = await ensureKeys(db, own, options)
  let keys = usable(unwrapped(rows, own))
  let reloading: Promise<void> | undefined
  const load = async () => {
    const found = await storedDataKeys(db.read)
    if (JSON.stringify(found) === JSON.stringify(rows)) return
    if (!isAccepted(found, own)) own = masterKey()
    const isReplaced = !isAccepted(found, own)
    if (!isReplaced) keys = usable(unwrapped(found, own))
    // Assigned after the keys, so that the next reload tries again if decrypting the keys fails.
    rows = found
    if (isReplaced) return onReplaced()
    onChanged({ ids: [...keys.sealKeys.keys()], sealId: keys.sealId })
  }
  const reload = () => {
    reloading ??= load().finally(() => {
      reloading = undefined
    })
    return reloading
  }
  const onUnknown = () => void reload().catch(onError)
  return { sealer: sealerWith(() => keys, random, onUnknown), reload }
}

/**
 * Opens the data keys in the database without changing anything; if there are none, uses the keys derived from the
 * master key. Throws `Unsealable` if the data keys belong to a different master key.
 */
export async function readSealer(read: Queryable, masterKey: Uint8Array, random: RandomBytes): Promise<Sealer> {
  const rows = await storedDataKeys(read)
  if (rows.length === 0) return sealer(masterKey, random)
  const keys = usable(unwrapped(rows, masterKey))
  return sealerWith(() => keys, random)
}

const isAccepted = (rows: readonly DataKeyRow[], masterKey: Uint8Array): boolean => {
  const fingerprint = fingerprintOf(masterKey)
  return rows.some((row) => row.fingerprint === fingerprint)
}

function usable(keys: readonly DataKey[]): DataKeys {
  const ofPurpose = (wanted: DataKey['purpose']) => keys.filter(({ purpose }) => purpose === wanted)
  const [digest] = ofPurpose('digest')
  if (digest === undefined) throw new Error('The table data_keys has no digest key: restore it from a backup')
  return {
    sealId: activeKey(keys).id,
    sealKeys: new Map(ofPurpose('seal').map(({ id, bytes }) => [id, keyObject(bytes)])),
    digestKey: keyObject(digest.bytes),
  }
}

/**
 * Returns the stored keys, or stores and returns the first keys if there are none. Processes that do this at the same
 * time all get the same keys.
 */
async function ensureKeys(db: Database, masterKey: Uint8Array, options: SealerOptions): Promise<DataKeyRow[]> {
  const found = await storedDataKeys(db.read)
  if (found.length > 0) return found
  const first = await firstKeys(db, masterKey, options).catch(async (error) => {
    // Another process may have stored keys in the meantime, and secrets encrypted with them.
    if ((await storedDataKeys(db.read)).length === 0) throw error
    return []
  })
  if (first.length === 0) return storedDataKeys(db.read)
  const rows = wrapped(first, masterKey, 1, options.random)
  await db.write((tx) =>
    tx
      .insertInto('dataKeys')
      .values(rows)
      .onConflict((conflict) => conflict.doNothing())
      .execute(),
  )
  return storedDataKeys(db.read)
}

/**
 * Returns the first keys: random keys for a new database, otherwise the keys that earlier releases derived from the
 * master key.
 */
async function firstKeys(
  db: Database,
  masterKey: Uint8Array,
  { columns, now, random }: SealerOptions,
): Promise<DataKey[]> {
  const createdAt = iso(now())
  const about = { createdAt, activatedAt: createdAt }
  const keys = [
    newDataKey(random, { id: firstSealId, purpose: 'seal', ...about }),
    newDataKey(random, { id: digestId, purpose: 'digest', ...about }),
  ]
  if (await isNew(db)) return keys
  await refuseOtherKey(db.read, sealer(masterKey, random), columns)
  const derived = derivedKeys(masterKey)
  return keys.map((key) => ({ ...key, bytes: derived[key.purpose] }))
}

/** Returns true if the tables that get the first encrypted values or keyed digests are all empty. */
async function isNew({ read }: Database): Promise<boolean> {
  const { rows } = await sql<{ used: boolean | number }>`
    select exists (select 1 from signing_keys) or exists (select 1 from clients) or exists (select 1 from audit_entries)
      or exists (select 1 from webhooks) as used`.execute(read)
  return !rows[0]?.used
}

const reloadEveryMs = 5_000
/** How long a rotation waits for all running processes to load a change to the data keys. */
export const keysLoadedWithinMs = 3 * reloadEveryMs

/** Reloads the data keys every five seconds. Returns a function that stops the reloading. */
export function watchKeys(reload: StoredSealer['reload'], onError: (error: unknown) => void): () => Promise<void> {
  let last: Promise<void> | undefined
  const timer = setInterval(() => {
    last = reload().catch(onError)
  }, reloadEveryMs)
  return async () => {
    clearInterval(timer)
    await last
  }
}
