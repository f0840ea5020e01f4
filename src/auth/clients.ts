import { randomBytes } from 'node:crypto'
import type { Database } from '../db/open.ts'
import type { Sealer } from '../db/seal.ts'
import type { Client } from '../db/tables.ts'
import { Problem } from '../http/problem.ts'
import { type NewClient, refuseWrong } from './new-client.ts'
import type { Scopes } from './scopes.ts'

/** A client as registered; one without a secret hash is public and proves itself with PKCE alone. */
export interface RegisteredClient {
  id: string
  name: string
  secretHash: string | null
  scopes: string[]
  grants: string[]
  redirectUris: string[]
  createdAt: string
  revokedAt: string | null
}

/** Clock (milliseconds since the epoch) and randomness, for tests to drive. */
export interface Sources {
  now?: () => number
  random?: (size: number) => Uint8Array
}

const token = (random: (size: number) => Uint8Array, bytes: number) => Buffer.from(random(bytes)).toString('base64url')

/** Where a client's secret is digested for (`sealer.digest`). */
export const secretPlace = (id: string) => `client:${id}`

/**
 * Registers a client and returns it with its secret, which is kept only as a digest and so never shown again.
 * Throws VALIDATION_ERROR naming each wrong field, a scope that is not `known` included, DUPLICATE_RESOURCE when the id is taken.
 */
export async function createClient(
  db: Database,
  sealer: Sealer,
  known: Scopes,
  { secret: given, redirectUris = [], ...wanted }: NewClient,
  { now = Date.now, random = randomBytes }: Sources = {},
): Promise<{ client: RegisteredClient; secret: string | null }> {
  const id = wanted.id ?? `cli_${token(random, 16)}`
  const secret = given === undefined ? token(random, 32) : given
  refuseWrong({ ...wanted, id, secret, redirectUris }, known)
  const secretHash = secret === null ? null : sealer.digest(secret, secretPlace(id))
  const row = { ...packed({ ...wanted, redirectUris }), id, secretHash, createdAt: new Date(now()).toISOString() }
  await insert(db, { ...row, revokedAt: null })
  return { client: unpacked({ ...row, revokedAt: null }), secret }
}

/** All clients, oldest first, the revoked ones included. */
export async function listClients(db: Database): Promise<RegisteredClient[]> {
  const rows = await db.read.selectFrom('clients').selectAll().orderBy('createdAt').orderBy('id').execute()
  return rows.map(unpacked)
}

/** The client of that id, unless there is none or it was revoked. */
export async function findClient(db: Database, id: string): Promise<RegisteredClient | undefined> {
  const find = db.read.selectFrom('clients').selectAll().where('id', '=', id).where('revokedAt', 'is', null)
  const row = await find.executeTakeFirst()
  return row && unpacked(row)
}

/** Revokes a client for good: no new tokens, and those it holds are refused soon after; false when there is none. */
export async function revokeClient(db: Database, id: string, { now = Date.now }: Sources = {}): Promise<boolean> {
  const revokedAt = new Date(now()).toISOString()
  const { numUpdatedRows } = await db.write((tx) =>
    tx
      .updateTable('clients')
      .set({ revokedAt })
      .where('id', '=', id)
      .where('revokedAt', 'is', null)
      .executeTakeFirstOrThrow(),
  )
  return numUpdatedRows > 0n
}

/**
 * Makes sure that the client named in the settings exists as set: confidential, every scope, client_credentials.
 * Meant for each start; throws VALIDATION_ERROR when id or secret cannot be used.
 */
export async function ensureBootstrapClient(
  db: Database,
  sealer: Sealer,
  known: Scopes,
  id: string,
  secret: string,
  { now = Date.now }: Sources = {},
): Promise<void> {
  const wanted = {
    name: 'Bootstrap client',
    scopes: Object.keys(known),
    grants: ['client_credentials'],
    redirectUris: [],
  }
  refuseWrong({ ...wanted, id, secret }, known)
  const values = { ...packed(wanted), secretHash: sealer.digest(secret, secretPlace(id)), revokedAt: null }
  const row = { ...values, id, createdAt: new Date(now()).toISOString() }
  await db.write((tx) =>
    tx
      .insertInto('clients')
      .values(row)
      .onConflict((conflict) => conflict.column('id').doUpdateSet(values))
      .execute(),
  )
}

async function insert(db: Database, row: Client): Promise<void> {
  try {
    await db.write((tx) => tx.insertInto('clients').values(row).execute())
  } catch (error) {
    if (!db.engine.isDuplicate(error)) throw error
    throw new Problem('DUPLICATE_RESOURCE', `There is a client "${row.id}" already`, { cause: error })
  }
}

function packed({ name, scopes, grants, redirectUris }: Required<Omit<NewClient, 'id' | 'secret'>>) {
  const words = (list: readonly string[]) => [...new Set(list)].join(' ')
  return { name, scopes: words(scopes), grants: words(grants), redirectUris: words(redirectUris) }
}

function unpacked(row: Client): RegisteredClient {
  const words = (text: string) => text.split(' ').filter(Boolean)
  return { ...row, scopes: words(row.scopes), grants: words(row.grants), redirectUris: words(row.redirectUris) }
}
