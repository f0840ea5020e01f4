import { createPublicKey, generateKeyPair, type KeyObject, randomBytes } from 'node:crypto'
import { promisify } from 'node:util'
import { calculateJwkThumbprint, type JWK } from 'jose'
import type { Database, Queryable } from '../db/open.ts'
import type { Sealer } from '../db/seal.ts'

/** What the authorization server signs with, the same on all nodes. */
export interface SigningKeys {
  /** The private keys: first the one that signs, then those that are known for checking. */
  jwks: { keys: JWK[] }
  /** What cookies are signed with, in the same order. */
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
  /** Newest first. */
  keys: { kid: string; privateSealed: string; createdAt: string }[]
  cookieKeys: string | undefined
}

const hourMs = 3_600_000
/** A new key is published this long before it signs, so that everybody who checks has read it by then (T-OA-14). */
const publishedAheadMs = 24 * hourMs
const signsForMs = 90 * 24 * hourMs
/** What a key has signed last is good for a day at most; and a node may notice two hours late that another one signs. */
const lastSignedMs = 26 * hourMs

const cookieKeysName = 'cookie_keys'
const cookieKeysPlace = `settings:${cookieKeysName}`
const cookieKeyBytes = 32
const keyPlace = (kid: string) => `signing_keys:${kid}`

/**
 * Reads the signing and cookie keys, and makes them on the first run: once, however many processes start together.
 * Throws when they were sealed under another master key.
 */
export async function signingKeys({ db, sealer, now, random = randomBytes }: KeySources): Promise<SigningKeys> {
  const found = await stored(db.read)
  if (isComplete(found)) return opened(found, sealer, now())
  const row = await sealedKey(sealer, now())
  const cookieKeys = sealer.seal(JSON.stringify([newCookieKey(random)]), cookieKeysPlace)
  await insertMissing(db, row, cookieKeys)
  return opened(await stored(db.read), sealer, now())
}

/**
 * Makes the next keys when it is time to publish them, and forgets those that nothing good is signed with any more. Safe
 * to run on every node, as often as one likes.
 */
export async function rotateKeys({ db, sealer, now, random = randomBytes }: KeySources): Promise<void> {
  const at = now()
  const found = await stored(db.read)
  const isDue = ({ keys }: Stored) => Date.parse(keys[0]?.createdAt ?? '') + signsForMs <= at
  const isPast = ({ keys }: Stored) => keys.length > needed(keys, at)
  if (!isComplete(found) || !(isDue(found) || isPast(found))) return
  const row = await sealedKey(sealer, at)
  await db.write(async (tx) => {
    await lock(tx)
    // Another node may have done it meanwhile.
    const current = await stored(tx)
    const cookieKeys = unsealed<string[]>(sealer, current.cookieKeys ?? '', cookieKeysPlace)
    if (isDue(current)) await tx.insertInto('signingKeys').values(row).execute()
    const all = isDue(current) ? [row, ...current.keys] : current.keys
    const kept = all.slice(0, needed(all, at))
    const next = (isDue(current) ? [newCookieKey(random), ...cookieKeys] : cookieKeys).slice(0, kept.length)
    await tx
      .deleteFrom('signingKeys')
      .where(
        'kid',
        'not in',
        kept.map(({ kid }) => kid),
      )
      .execute()
    const value = sealer.seal(JSON.stringify(next), cookieKeysPlace)
    await tx.updateTable('settings').set({ value }).where('name', '=', cookieKeysName).execute()
  })
}

/** How many of the keys, newest first, are still needed: those after which nothing else has signed for long enough. */
function needed(keys: Stored['keys'], at: number): number {
  const isOver = ({ createdAt }: Stored['keys'][0]) => Date.parse(createdAt) + publishedAheadMs + lastSignedMs <= at
  const over = keys.findIndex(isOver)
  return over < 0 ? keys.length : over + 1
}

/** The place of the key that signs: the newest that was published long enough ago, else the oldest there is. */
function signer(keys: Stored['keys'], at: number): number {
  const published = keys.findIndex(({ createdAt }) => Date.parse(createdAt) + publishedAheadMs <= at)
  return published < 0 ? keys.length - 1 : published
}

const newCookieKey = (random: (size: number) => Uint8Array) => Buffer.from(random(cookieKeyBytes)).toString('base64url')

async function sealedKey(sealer: Sealer, at: number): Promise<KeyRow> {
  const key = await newKey()
  const privateSealed = sealer.seal(JSON.stringify(key), keyPlace(key.kid))
  return { kid: key.kid, alg: key.alg, privateSealed, createdAt: new Date(at).toISOString() }
}

async function stored(db: Queryable): Promise<Stored> {
  const keys = await db
    .selectFrom('signingKeys')
    .select(['kid', 'privateSealed', 'createdAt'])
    .orderBy('createdAt', 'desc')
    .orderBy('kid')
    .execute()
  const setting = await db.selectFrom('settings').select('value').where('name', '=', cookieKeysName).executeTakeFirst()
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

/** Makes everybody who changes the keys wait for each other. */
async function lock(tx: Queryable): Promise<void> {
  const row = tx.updateTable('settings').set((eb) => ({ value: eb.ref('value') }))
  await row.where('name', '=', cookieKeysName).execute()
}

function opened({ keys, cookieKeys }: Stored, sealer: Sealer, at: number): SigningKeys {
  const first = signer(keys, at)
  const ordered = <T>(list: T[]) => [...list.slice(first, first + 1), ...list.slice(0, first), ...list.slice(first + 1)]
  const all = keys.map(({ kid, privateSealed }) => unsealed<JWK>(sealer, privateSealed, keyPlace(kid)))
  const jwks = { keys: ordered(all) }
  return {
    jwks,
    cookieKeys: ordered(unsealed<string[]>(sealer, cookieKeys ?? '', cookieKeysPlace)),
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
