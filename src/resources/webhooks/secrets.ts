import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { calculateJwkThumbprint } from 'jose'
import type { RandomBytes } from '../../db/ids.ts'
import type { Database, Queryable } from '../../db/open.ts'
import type { Sealer } from '../../db/seal.ts'
import { newSecret } from './sign.ts'

/** Whose rows these are: the client and the subject of the token that made them. */
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
const keyPlace = `settings:${keyName}`

/** Where a registration's secret is sealed to. */
export const secretPlace = (webhookId: string): string => `webhooks:${webhookId}`

/** Where a registration's static headers, which may hold a token of the receiver, are sealed to. */
export const headersPlace = (webhookId: string): string => `webhooks:${webhookId}:headers`

const accountPlace = ({ ownerClient, ownerSubject }: Owner): string =>
  `account_secrets:${JSON.stringify([ownerClient, ownerSubject])}`

/** Reads the Ed25519 key, and makes it on the first run: once, however many processes start together. */
export async function webhookKeys(db: Database, sealer: Sealer): Promise<WebhookKeys> {
  const sealed = (await sealedKey(db.read)) ?? (await addKey(db, sealer.seal(newPrivateKey(), keyPlace)))
  const privateKey = createPrivateKey(sealer.open(sealed, keyPlace))
  const { kty = '', crv = '', x = '' } = createPublicKey(privateKey).export({ format: 'jwk' })
  const kid = await calculateJwkThumbprint({ kty, crv, x })
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
    // The winner's, when another process was faster.
    return (await sealedKey(tx)) as string
  })

/** The secret that signs calls to the owner's per-request URLs, made when it is first needed. */
export async function accountSecret(
  db: Database,
  sealer: Sealer,
  owner: Owner,
  now: () => number,
  random: RandomBytes,
): Promise<string> {
  const place = accountPlace(owner)
  const found = await sealedSecret(db.read, owner)
  if (found !== undefined) return sealer.open(found, place)
  const row = {
    ownerClient: owner.ownerClient,
    ownerSubject: owner.ownerSubject,
    secretSealed: sealer.seal(newSecret(random), place),
    createdAt: new Date(now()).toISOString(),
  }
  const sealed = await db.write(async (tx) => {
    await tx
      .insertInto('accountSecrets')
      .values(row)
      .onConflict((conflict) => conflict.doNothing())
      .execute()
    return sealedSecret(tx, owner)
  })
  return sealer.open(sealed as string, place)
}

async function sealedSecret(tx: Queryable, { ownerClient, ownerSubject }: Owner): Promise<string | undefined> {
  const row = await tx
    .selectFrom('accountSecrets')
    .select('secretSealed')
    .where('ownerClient', '=', ownerClient)
    .where('ownerSubject', '=', ownerSubject)
    .executeTakeFirst()
  return row?.secretSealed
}
