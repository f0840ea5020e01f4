import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { calculateJwkThumbprint } from 'jose'
import type { SealedColumn } from '../storage/data-keys/sealed-columns.ts'
import type { Database, Queryable } from '../storage/database.ts'
import type { Sealer } from '../storage/encryption.ts'
import type { RandomBytes } from '../storage/ids.ts'
import type { Webhook } from '../storage/tables/tables.ts'
import { newSecret } from './dispatch/sign.ts'

/** A row's owner: the client and the subject of the token that created the row. */
export interface Owner {
  ownerClient: string
  ownerSubject: string
}

/** An Ed25519 public key (RFC 8037). */
export interface PublicJwk {
  kty: string
  crv: string
  x: string
  kid: string
  alg: string
  use: string
}

/** The service's own key for `v1a` signatures, and its public half as a JWK set. */
export interface WebhookKeys {
  privateKey: KeyObject
  jwks: { keys: PublicJwk[] }
}

const keyName = 'webhook-ed25519'
const keyAad = `settings:${keyName}`

/** Returns the AAD that binds an encrypted secret to its webhook. */
export const secretAad = (webhookId: string): string => `webhooks:${webhookId}`

/** Returns the AAD for a webhook's static headers, which are encrypted because they may contain a receiver's token. */
export const headersAad = (webhookId: string): string => `webhooks:${webhookId}:headers`

/** Returns the AAD for an account's secret. */
export const accountAad = ({ ownerClient, ownerSubject }: Owner): string =>
  `account_secrets:${JSON.stringify([ownerClient, ownerSubject])}`

const ofWebhooks = { table: 'webhooks', key: ['id'] }
const ofAccounts = {
  ...{ table: 'account_secrets', key: ['owner_client', 'owner_subject'] },
  locationOf: (ownerClient = '', ownerSubject = '') => accountAad({ ownerClient, ownerSubject }),
}

/** The columns that contain encrypted webhook secrets and headers, and the encrypted Ed25519 key. */
export const sealedSecrets: readonly SealedColumn[] = [
  { ...ofWebhooks, column: 'secret_sealed', locationOf: secretAad },
  { ...ofWebhooks, column: 'previous_secret_sealed', locationOf: secretAad },
  { ...ofWebhooks, column: 'headers', locationOf: headersAad },
  { ...ofAccounts, column: 'secret_sealed' },
  { ...ofAccounts, column: 'previous_secret_sealed' },
  { ...{ table: 'settings', column: 'value', key: ['name'], only: [keyName] }, locationOf: () => keyAad },
]

/**
 * Reads the Ed25519 key; on the first run, creates it exactly once, even if several processes start together, and
 * passes its `kid` to `onCreated`.
 */
export async function webhookKeys(
  db: Database,
  sealer: Sealer,
  onCreated: (kid: string) => void = () => {},
): Promise<WebhookKeys> {
  const found = await sealedKey(db.read)
  const added = found === undefined ? sealer.seal(newPrivateKey(), keyAad) : undefined
  const sealed = found ?? (await addKey(db, added as string))
  const privateKey = createPrivateKey(sealer.open(sealed, keyAad))
  const { kty = '', crv = '', x = '' } = createPublicKey(privateKey).export({ format: 'jwk' })
  const kid = await calculateJwkThumbprint({ kty, crv, x })
  if (sealed === added) onCreated(kid)
  return { privateKey, jwks: { keys: [{ kty, crv, x, kid, alg: 'EdDSA', use: 'sig' }] } }
}

const newPrivateKey = (): string =>
  generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' }).toString()

async function sealedKey(tx: Queryable): Promise<string | undefined> {
  const row = await tx.selectFrom('settings').select('value').where('name', '=', keyName).executeTakeFirst()
  return row?.value
}

const addKey = (db: Database, value: string): Promise<string> =>
  db.write(async (tx) => {
    await tx
      .insertInto('settings')
      .values({ name: keyName, value })
      .onConflict((conflict) => conflict.doNothing())
      .execute()
    // If another process has created the key first, use that key.
    return (await sealedKey(tx)) as string
  })

/** The columns for an encrypted secret and the previous one. */
export type StoredSecret = Pick<Webhook, 'secretSealed' | 'previousSecretSealed' | 'previousSecretExpiresAt'>

/** Returns the secrets that are currently used to sign calls, newest first; during a rotation, there are two. */
export function validSecrets(sealer: Sealer, stored: StoredSecret, aad: string, nowMs: number): string[] {
  const { secretSealed, previousSecretSealed: previous, previousSecretExpiresAt: end } = stored
  const isOver = previous === null || end === null || Date.parse(end) <= nowMs
  return (isOver ? [secretSealed] : [secretSealed, previous]).map((sealed) => sealer.open(sealed, aad))
}

type OfAccount = [db: Database, sealer: Sealer, owner: Owner, now: () => number, random: RandomBytes]

/** Returns the account's secret as stored; creates the secret on first use. */
export const storedAccountSecret = async (...[db, sealer, owner, now, random]: OfAccount): Promise<StoredSecret> =>
  (await findSecret(db.read, owner)) ?? db.write((tx) => ensureSecret(tx, sealer, owner, now, random))

/** Returns the secrets that are currently used to sign calls to the account's one-off callback URLs, newest first. */
export async function accountSecrets(...of: OfAccount): Promise<string[]> {
  const [, sealer, owner, now] = of
  return validSecrets(sealer, await storedAccountSecret(...of), accountAad(owner), now())
}

/** Returns the account's newest secret. */
export const accountSecret = async (...of: OfAccount): Promise<string> => (await accountSecrets(...of))[0] as string

/**
 * Returns the row with the account's secret. If there is none, inserts one, unless a concurrent request inserts it
 * first.
 */
export async function ensureSecret(
  tx: Queryable,
  sealer: Sealer,
  owner: Owner,
  now: () => number,
  random: RandomBytes,
): Promise<StoredSecret> {
  const row = {
    ownerClient: owner.ownerClient,
    ownerSubject: owner.ownerSubject,
    secretSealed: sealer.seal(newSecret(random), accountAad(owner)),
    createdAt: new Date(now()).toISOString(),
  }
  await tx
    .insertInto('accountSecrets')
    .values(row)
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  return (await findSecret(tx, owner)) as StoredSecret
}

const findSecret = (tx: Queryable, { ownerClient, ownerSubject }: Owner): Promise<StoredSecret | undefined> =>
  tx
    .selectFrom('accountSecrets')
    .select(['secretSealed', 'previousSecretSealed', 'previousSecretExpiresAt'])
    .where('ownerClient', '=', ownerClient)
    .where('ownerSubject', '=', ownerSubject)
    .executeTakeFirst()

/** Memoizes a pure function of strings. Caches the last `max` results; thrown errors are not cached. */
export function memoize<A extends readonly string[], R>(max: number, compute: (...args: A) => R): (...args: A) => R {
  const known = new Map<string, R>()
  return (...args) => {
    const key = args.length === 1 ? (args[0] as string) : args.join('\0')
    const found = known.get(key)
    if (found !== undefined) return found
    const result = compute(...args)
    if (known.size >= max) known.delete(known.keys().next().value as string)
    known.set(key, result)
    return result
  }
}
