import { createPublicKey, type KeyObject, randomBytes } from 'node:crypto'
import type { JWK } from 'jose'
import type { Database } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import type { SigningAlgorithm } from './key-algorithms.ts'
import {
  cookieKeysContext,
  createKey,
  keyContext,
  lockKeys,
  newCookieKey,
  type StoredKey,
  storedCookieKeys,
  storedSigningKeys,
} from './stored-keys.ts'

/** A snapshot of the authorization server's keys, which are identical on all nodes. */
export interface SigningKeys {
  /** The private keys: the signing key first, then keys published in advance or still used to verify. */
  jwks: { keys: JWK[] }
  /** The keys that sign cookies: one for each key in `jwks`, in the same order. */
  cookieKeys: string[]
  /** The public keys, by `kid`. */
  publicKeys: ReadonlyMap<string, KeyObject>
}

export interface KeySources {
  db: Database
  sealer: Sealer
  /** Returns the current time in ms since the epoch. */
  now: () => number
  random?: (size: number) => Uint8Array
  /** The algorithm of a new key; by default RS256. */
  algorithm?: SigningAlgorithm | undefined
  /** Called with the `kid` of the first key when the key has been created. */
  onCreated?: ((kid: string) => void) | undefined
}

/**
 * Reads the signing and cookie keys; creates them on the first run, only once even if several processes start together.
 * Throws if the keys were encrypted under a different master key.
 */
export async function signingKeys(sources: KeySources): Promise<SigningKeys> {
  const found = await stored(sources.db)
  if (isComplete(found)) return opened(found, sources)
  await createMissing(sources)
  return opened(await stored(sources.db), sources)
}

interface Stored {
  keys: StoredKey[]
  cookieKeys: string | undefined
}

const stored = async (db: Database): Promise<Stored> => ({
  keys: await storedSigningKeys(db.read),
  cookieKeys: await storedCookieKeys(db),
})

const isComplete = ({ keys, cookieKeys }: Stored) => keys.length > 0 && cookieKeys !== undefined

async function createMissing(sources: KeySources): Promise<void> {
  const { db, sealer, now, random = randomBytes, algorithm, onCreated } = sources
  const at = new Date(now()).toISOString()
  const key = await createKey(sealer, at, at, algorithm)
  const cookieKeys = sealer.seal(JSON.stringify([newCookieKey(random)]), cookieKeysContext)
  const isCreated = await db.write(async (tx) => {
    await lockKeys(tx, cookieKeys)
    const existing = await tx.selectFrom('signingKeys').select('kid').executeTakeFirst()
    if (!existing) await tx.insertInto('signingKeys').values(key).execute()
    return existing === undefined
  })
  if (isCreated) onCreated?.(key.kid)
}

function opened({ keys, cookieKeys }: Stored, { sealer, now }: KeySources): SigningKeys {
  const at = signer(keys, new Date(now()).toISOString())
  const ordered = firstOf(keys, at)
  const jwks = { keys: ordered.map(({ kid, privateSealed }) => unsealed<JWK>(sealer, privateSealed, keyContext(kid))) }
  return {
    jwks,
    cookieKeys: firstOf(unsealed<string[]>(sealer, cookieKeys ?? '', cookieKeysContext), at),
    publicKeys: new Map(jwks.keys.map((key) => [key.kid as string, publicKey(key)])),
  }
}

/** Returns the index of the key that signs: the newest key that is already active. */
function signer(keys: StoredKey[], now: string): number {
  const found = keys.findIndex(({ activeFrom }) => activeFrom <= now)
  return found < 0 ? keys.length - 1 : found
}

/** Moves one element to the front, because the authorization server signs with the first key. */
const firstOf = <T>(list: T[], at: number): T[] => [
  ...list.slice(at, at + 1),
  ...list.slice(0, at),
  ...list.slice(at + 1),
]

/** Decrypts and parses a JSON text. Throws an error that names `context` if another master key encrypted the text. */
export const unsealed = <T>(sealer: Sealer, sealed: string, context: string): T =>
  JSON.parse(sealer.open(sealed, context)) as T

function publicKey({ kty, n, e, crv, x, y }: JWK): KeyObject {
  return createPublicKey({ key: { kty, n, e, crv, x, y } as Record<string, string>, format: 'jwk' })
}
