import type { Queryable } from '../database.ts'
import { decrypt, derive, encrypt, fingerprintOf, keyObject, Unsealable } from '../encryption.ts'
import type { RandomBytes } from '../ids.ts'
import type { DataKeyRow } from '../tables/administration.ts'

/** A decrypted data key. */
export interface DataKey extends Pick<DataKeyRow, 'id' | 'purpose' | 'createdAt' | 'activatedAt'> {
  bytes: Buffer
}

const keyBytes = 32

/** Creates a random data key. */
export const newDataKey = (random: RandomBytes, about: Omit<DataKey, 'bytes'>): DataKey => ({
  ...about,
  bytes: Buffer.from(random(keyBytes)),
})

export const storedDataKeys = (db: Queryable): Promise<DataKeyRow[]> =>
  db.selectFrom('dataKeys').selectAll().orderBy('id').orderBy('generation').execute()

const locationOf = ({ id, purpose }: Pick<DataKey, 'id' | 'purpose'>) => `data_keys:${id}:${purpose}`
const wrappingKey = (masterKey: Uint8Array) => keyObject(derive(masterKey, 'wrap v1'))

/** Encrypts data keys under a master key and returns the rows to store. */
export function wrapped(
  keys: readonly DataKey[],
  masterKey: Uint8Array,
  generation: number,
  random: RandomBytes,
): DataKeyRow[] {
  const wrapping = wrappingKey(masterKey)
  const fingerprint = fingerprintOf(masterKey)
  return keys.map(({ bytes, ...key }) => ({
    ...{ ...key, generation, fingerprint },
    wrapped: encrypt(wrapping, bytes.toString('base64'), locationOf(key), random),
  }))
}

/** Decrypts the rows that are encrypted under a master key. Throws `Unsealable` if there are none. */
export function unwrapped(rows: readonly DataKeyRow[], masterKey: Uint8Array): DataKey[] {
  const fingerprint = fingerprintOf(masterKey)
  const own = rows.filter((row) => row.fingerprint === fingerprint)
  if (own.length === 0) throw new Unsealable('data_keys', undefined)
  const wrapping = wrappingKey(masterKey)
  return own.map(({ id, purpose, createdAt, activatedAt, wrapped: text }) => {
    const bytes = Buffer.from(decrypt(wrapping, text, locationOf({ id, purpose })), 'base64')
    return { id, purpose, createdAt, activatedAt, bytes }
  })
}

/** Returns the key that encrypts new secrets: the newest encryption key that has been activated. */
export const activeKey = <K extends Pick<DataKey, 'id' | 'purpose' | 'activatedAt'>>(keys: readonly K[]): K => {
  const found = keys.findLast(({ purpose, activatedAt }) => purpose === 'seal' && activatedAt !== null)
  if (found === undefined) throw new Error('The table data_keys has no active key: restore it from a backup')
  return found
}
