import { createPublicKey, generateKeyPair, type KeyObject, randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import { calculateJwkThumbprint, type JWK } from 'jose'
import type { Database } from '../db/open.ts'
import type { Sealer } from '../db/seal.ts'

/** What the authorization server signs with, the same on all nodes. */
export interface SigningKeys {
  /** The private keys, newest first. */
  jwks: { keys: JWK[] }
  /** What cookies are signed with, newest first. */
  cookieKeys: string[]
  /** The public keys by `kid`; each is RSA and good for RS256 only. */
  publicKeys: ReadonlyMap<string, KeyObject>
}

export interface KeySources {
  db: Database
  sealer: Sealer
  /** Milliseconds since the epoch. */
  now: () => number
  random?: (size: number) => Uint8Array
}

interface Stored {
  keys: { kid: string; privateSealed: string }[]
  cookieKeys: string | undefined
}

const cookieKeysName = 'cookie_keys'
const cookieKeysPlace = `settings:${cookieKeysName}`
const cookieKeyBytes = 32
const keyPlace = (kid: string) => `signing_keys:${kid}`

/**
 * Reads the signing and cookie keys, and makes them on the first run: once, however many processes start together.
 * Throws when they were sealed under another master key.
 */
export async function signingKeys({ db, sealer, now, random = randomBytes }: KeySources): Promise<SigningKeys> {
  const found = await stored(db)
  if (isComplete(found)) return opened(found, sealer)
  const [key, cookieKey] = [await newKey(), Buffer.from(random(cookieKeyBytes)).toString('base64url')]
  const sealedKey = { kid: key.kid, alg: key.alg, privateSealed: sealer.seal(JSON.stringify(key), keyPlace(key.kid)) }
  const cookieKeys = sealer.seal(JSON.stringify([cookieKey]), cookieKeysPlace)
  await insertMissing(db, { ...sealedKey, createdAt: new Date(now()).toISOString() }, cookieKeys)
  return opened(await stored(db), sealer)
}

async function stored(db: Database): Promise<Stored> {
  const keys = await db.read
    .selectFrom('signingKeys')
    .select(['kid', 'privateSealed'])
    .orderBy('createdAt', 'desc')
    .orderBy('kid')
    .execute()
  const setting = await db.read
    .selectFrom('settings')
    .select('value')
    .where('name', '=', cookieKeysName)
    .executeTakeFirst()
  return { keys, cookieKeys: setting?.value }
}

function isComplete({ keys, cookieKeys }: Stored): boolean {
  return keys.length > 0 && cookieKeys !== undefined
}

async function newKey(): Promise<JWK & { kid: string; alg: string }> {
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 })
  const key = privateKey.export({ format: 'jwk' }) as JWK
  return { ...key, kid: await calculateJwkThumbprint(key), alg: 'RS256', use: 'sig' }
}

interface KeyRow {
  kid: string
  alg: string
  privateSealed: string
  createdAt: string
}

async function insertMissing(db: Database, key: KeyRow, cookieKeys: string): Promise<void> {
  await db.write(async (tx) => {
    // Writing this row, even to the value it has, makes processes that start together pass here one after the other.
    await tx
      .insertInto('settings')
      .values({ name: cookieKeysName, value: cookieKeys })
      .onConflict((conflict) => conflict.column('name').doUpdateSet((eb) => ({ value: eb.ref('settings.value') })))
      .execute()
    const existing = await tx.selectFrom('signingKeys').select('kid').executeTakeFirst()
    if (!existing) await tx.insertInto('signingKeys').values(key).execute()
  })
}

function opened({ keys, cookieKeys }: Stored, sealer: Sealer): SigningKeys {
  const jwks = { keys: keys.map(({ kid, privateSealed }) => unsealed<JWK>(sealer, privateSealed, keyPlace(kid))) }
  return {
    jwks,
    cookieKeys: unsealed<string[]>(sealer, cookieKeys ?? '', cookieKeysPlace),
    publicKeys: new Map(jwks.keys.map((key) => [key.kid as string, publicKey(key)])),
  }
}

function unsealed<T>(sealer: Sealer, sealed: string, place: string): T {
  try {
    return JSON.parse(sealer.open(sealed, place)) as T
  } catch (cause) {
    throw new Error(`${place} cannot be unsealed: the master key is not the one it was sealed under`, { cause })
  }
}

function publicKey({ kty, n, e }: JWK): KeyObject {
  return createPublicKey({ key: { kty, n, e } as Record<string, string>, format: 'jwk' })
}
