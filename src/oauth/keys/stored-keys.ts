import { generateKeyPair, type KeyObject } from 'node:crypto'
import { promisify } from 'node:util'
import { calculateJwkThumbprint, type JWK } from 'jose'
import type { SealedColumn } from '../../storage/data-keys/sealed-columns.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import type { SigningAlgorithm } from './key-algorithms.ts'

/** A stored signing key. The private key is encrypted. */
export interface StoredKey {
  kid: string
  alg: string
  privateSealed: string
  createdAt: string
  /** When the key starts to sign, as fixed-width ISO text. */
  activeFrom: string
}

export const cookieKeysName = 'cookie_keys'
export const cookieKeysContext = `settings:${cookieKeysName}`
export const keyContext = (kid: string) => `signing_keys:${kid}`

/** The columns with the encrypted signing and cookie keys. */
export const sealedKeys: readonly SealedColumn[] = [
  { table: 'signing_keys', column: 'private_sealed', key: ['kid'], locationOf: keyContext },
  {
    ...{ table: 'settings', column: 'value', key: ['name'], only: [cookieKeysName] },
    locationOf: () => cookieKeysContext,
  },
]

const newPrivateKey: Readonly<Record<SigningAlgorithm, () => Promise<KeyObject>>> = {
  // Generating an RSA key takes about 100 ms, but does not block the main thread.
  RS256: async () => (await promisify(generateKeyPair)('rsa', { modulusLength: 2048 })).privateKey,
  ES256: async () => (await promisify(generateKeyPair)('ec', { namedCurve: 'P-256' })).privateKey,
  EdDSA: async () => (await promisify(generateKeyPair)('ed25519')).privateKey,
}

/** Creates a key: RSA with 2048 bits, P-256 or Ed25519. */
export async function createKey(
  sealer: Sealer,
  createdAt: string,
  activeFrom: string,
  alg: SigningAlgorithm = 'RS256',
): Promise<StoredKey> {
  const key = (await newPrivateKey[alg]()).export({ format: 'jwk' }) as JWK
  const kid = await calculateJwkThumbprint(key)
  const sealed = sealer.seal(JSON.stringify({ ...key, kid, alg, use: 'sig' }), keyContext(kid))
  return { kid, alg, privateSealed: sealed, createdAt, activeFrom }
}

const cookieKeyBytes = 32

/** Creates a key for signing cookies. */
export const newCookieKey = (random: (size: number) => Uint8Array) =>
  Buffer.from(random(cookieKeyBytes)).toString('base64url')

/** Lists all keys, latest `activeFrom` first. */
export function storedSigningKeys(db: Queryable): Promise<StoredKey[]> {
  return db.selectFrom('signingKeys').selectAll().orderBy('activeFrom', 'desc').orderBy('kid').execute()
}

/** Returns the encrypted cookie keys; undefined until the first start has created them. */
export async function storedCookieKeys({ read }: Database): Promise<string | undefined> {
  const setting = read.selectFrom('settings').select('value').where('name', '=', cookieKeysName)
  return (await setting.executeTakeFirst())?.value
}

/**
 * Locks the keys for the rest of the transaction, using a no-op update of the settings row. If there is no row yet,
 * inserts the given cookie keys.
 */
export async function lockKeys(tx: Queryable, cookieKeys: string): Promise<void> {
  await tx
    .insertInto('settings')
    .values({ name: cookieKeysName, value: cookieKeys })
    .onConflict((conflict) => conflict.column('name').doUpdateSet((row) => ({ value: row.ref('settings.value') })))
    .execute()
}
