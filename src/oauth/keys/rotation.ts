import { randomBytes } from 'node:crypto'
import { type AuditActor, auditRecorder } from '../../audit/chain.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import { iso } from '../../storage/ids.ts'
import type { SigningAlgorithm } from './key-algorithms.ts'
import { unsealed } from './signing-keys.ts'
import {
  cookieKeysContext,
  cookieKeysName,
  createKey,
  lockKeys,
  newCookieKey,
  type StoredKey,
  storedCookieKeys,
  storedSigningKeys,
} from './stored-keys.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
/** How long a key is used for signing. */
export const lifeMs = 90 * dayMs
/**
 * How long a key is published in the JWKS before it starts to sign: longer than clients cache the JWKS, and at least as
 * long as any token is valid.
 */
export const publishedAheadMs = dayMs
/**
 * How long a key is still used for verification after it stops signing: the longest configurable token lifetime plus an
 * hour.
 */
export const verifiesAfterMs = dayMs + hourMs

export interface RotationSources {
  db: Database
  sealer: Sealer
  /** Returns the current time in ms since the epoch. */
  now: () => number
  random?: (size: number) => Uint8Array
  /** The algorithm of a new key; by default RS256. */
  algorithm?: SigningAlgorithm | undefined
  actor: AuditActor
}

/** Options for a requested rotation. */
export interface RotationRequest {
  /**
   * Whether to sign with a new key immediately, before all clients have fetched it, instead of publishing it for a day
   * first.
   */
  immediately: boolean
  /**
   * Whether to remove all other keys, which invalidates every token that they signed; for use after a key has leaked.
   */
  discard: boolean
}

/** The planned changes to the keys. */
interface Plan {
  /** When a new key starts to sign; undefined if no new key is needed. */
  activeFrom?: string
  retired: StoredKey[]
}

/** The `kid` of the newly published key, if any, and of each retired key. */
export interface Rotated {
  published: { kid: string; activeFrom: string } | undefined
  retired: string[]
}

/**
 * Plans scheduled changes: publishing a successor a day before it signs, and removing keys whose last token has
 * expired. If the current key does not use the configured algorithm, its successor is published at once.
 */
export function planScheduled(keys: readonly StoredKey[], now: number, algorithm: SigningAlgorithm = 'RS256'): Plan {
  const at = iso(now)
  const current = keys.find(({ activeFrom }) => activeFrom <= at)
  const hasSuccessor = keys.some(({ activeFrom }) => activeFrom > at)
  const retired = keys.filter((key) => {
    const successor = keys.findLast(({ activeFrom }) => activeFrom > key.activeFrom)
    return successor !== undefined && Date.parse(successor.activeFrom) + verifiesAfterMs <= now
  })
  const isReplaced = current !== undefined && current.alg !== algorithm
  const rotatesAt = isReplaced ? now : Date.parse(current?.activeFrom ?? at) + lifeMs
  if (hasSuccessor || now < rotatesAt - publishedAheadMs) return { retired }
  return { activeFrom: iso(Math.max(rotatesAt, now + publishedAheadMs)), retired }
}

/** Plans requested changes. A key that signs immediately also replaces any key that has not started to sign. */
export function planRequested(
  keys: readonly StoredKey[],
  now: number,
  { immediately, discard }: RotationRequest,
): Plan {
  const at = iso(now)
  const waiting = keys.filter(({ activeFrom }) => activeFrom > at)
  if (!immediately && !discard)
    return waiting.length > 0 ? { retired: [] } : { activeFrom: iso(now + publishedAheadMs), retired: [] }
  return { activeFrom: at, retired: discard ? [...keys] : waiting }
}

/**
 * Applies scheduled changes. If several processes call this at once, only one applies them. Usually no change is due,
 * and the check costs one read.
 */
export async function rotateOnSchedule(sources: RotationSources): Promise<Rotated> {
  const { db, now, algorithm } = sources
  const { activeFrom, retired } = planScheduled(await storedSigningKeys(db.read), now(), algorithm)
  if (activeFrom === undefined && retired.length === 0) return { published: undefined, retired: [] }
  return rotate(sources, (keys) => planScheduled(keys, now(), algorithm))
}

/** Applies a requested rotation; running services load the new keys within 15 seconds. */
export async function rotateOnRequest(sources: RotationSources, request: RotationRequest): Promise<Rotated> {
  return sources.db.write(await prepareRotation(sources, request))
}

/** Prepares a requested rotation. The returned function applies it in a transaction. */
export function prepareRotation(sources: RotationSources, request: RotationRequest): Promise<RotateIn> {
  return prepare(sources, (keys) => planRequested(keys, sources.now(), request))
}

type RotateIn = (tx: Queryable) => Promise<Rotated>

async function rotate(sources: RotationSources, plan: (keys: StoredKey[]) => Plan): Promise<Rotated> {
  return sources.db.write(await prepare(sources, plan))
}

async function prepare(sources: RotationSources, plan: (keys: StoredKey[]) => Plan): Promise<RotateIn> {
  const { db, sealer, now, algorithm } = sources
  const cookieKeys = await storedCookieKeys(db)
  if (cookieKeys === undefined)
    throw new Error('There are no signing keys yet; the first start of the service creates them')
  // Generate the key before the transaction, which must not await anything but the database. The key is discarded if no
  // rotation is due.
  const spare = await createKey(sealer, iso(now()), '', algorithm)
  return async (tx) => {
    await lockKeys(tx, cookieKeys)
    const keys = await storedSigningKeys(tx)
    const { activeFrom, retired } = plan(keys)
    const kids = retired.map(({ kid }) => kid)
    if (kids.length > 0) await tx.deleteFrom('signingKeys').where('kid', 'in', kids).execute()
    const key = activeFrom === undefined ? undefined : { ...spare, activeFrom }
    if (key) await tx.insertInto('signingKeys').values(key).execute()
    await rotateCookieKeys(tx, sources, keys, kids, key)
    await auditRotation(tx, sources, key, kids)
    return { published: key && { kid: key.kid, activeFrom: key.activeFrom }, retired: kids }
  }
}

/** Adds and removes cookie keys along with the signing keys, and keeps both in the same order. */
async function rotateCookieKeys(
  tx: Queryable,
  { sealer, random = randomBytes }: RotationSources,
  keys: StoredKey[],
  retired: string[],
  added: StoredKey | undefined,
): Promise<void> {
  const settings = tx.selectFrom('settings').select('value').where('name', '=', cookieKeysName)
  const { value } = await settings.executeTakeFirstOrThrow()
  const cookieKeys = unsealed<string[]>(sealer, value, cookieKeysContext)
  const pairs = keys.map((key, at) => ({ ...key, cookieKey: cookieKeys[at] ?? newCookieKey(random) }))
  const remaining = pairs.filter(({ kid }) => !retired.includes(kid))
  const all = added ? [...remaining, { ...added, cookieKey: newCookieKey(random) }] : remaining
  const order = new Map((await storedSigningKeys(tx)).map(({ kid }, at) => [kid, at]))
  const ordered = all.sort((one, other) => Number(order.get(one.kid)) - Number(order.get(other.kid)))
  const sealed = sealer.seal(JSON.stringify(ordered.map(({ cookieKey }) => cookieKey)), cookieKeysContext)
  await tx.updateTable('settings').set({ value: sealed }).where('name', '=', cookieKeysName).execute()
}

async function auditRotation(
  tx: Queryable,
  { sealer, now, actor }: RotationSources,
  key: StoredKey | undefined,
  kids: string[],
) {
  const record = auditRecorder(sealer, now)
  if (key) {
    const { kid, activeFrom } = key
    await record(tx, { ...actor, event: 'signing_key.published', target: kid, details: { activeFrom } })
  }
  for (const kid of kids) await record(tx, { ...actor, event: 'signing_key.retired', target: kid })
}
