import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { type AuditActor, auditRecorder, theService } from '../../audit/chain.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import { snake } from '../../storage/rows/column-names.ts'
import { firstRevision } from '../../storage/rows/revision.ts'
import type { Client } from '../../storage/tables/tables.ts'
import type { Scopes } from '../tokens/scopes.ts'
import { fromRow, type RegisteredClient, toRow } from './client-rows.ts'
import { type ClientSettings, type NewClient, validateClient, withDefaults } from './validate.ts'

/** The clock (epoch ms) and random source, injectable for tests, and the actor recorded in the audit log. */
export interface ClientDeps {
  now?: () => number
  random?: (size: number) => Uint8Array
  actor?: AuditActor
}

export const randomToken = (random: (size: number) => Uint8Array, bytes: number) =>
  Buffer.from(random(bytes)).toString('base64url')

/** Returns the context to which a client secret's digest is bound (`sealer.digest`). */
export const clientSecretContext = (id: string) => `client:${id}`

/** A client that has not been registered yet: its secret and its row, which contains only a digest of the secret. */
export interface DraftClient {
  row: Client
  settings: ClientSettings
  secret: string | null
}

/**
 * Creates a client without storing it. Throws a VALIDATION_ERROR that lists each invalid field; scopes must be in
 * `known`.
 */
export function draftClient(
  sealer: Sealer,
  known: Scopes,
  { secret: givenSecret, ...wanted }: NewClient,
  { now = Date.now, random = randomBytes }: ClientDeps = {},
): DraftClient {
  const id = wanted.id ?? `cli_${randomToken(random, 16)}`
  const secret = givenSecret === undefined ? randomToken(random, 32) : givenSecret
  const settings = withDefaults(wanted)
  validateClient({ ...settings, id, secret }, known)
  const secretHash = secret === null ? null : sealer.digest(secret, clientSecretContext(id))
  const at = new Date(now()).toISOString()
  const row = { ...toRow(settings), id, secretHash, ...firstRevision(at), lastUsedAt: null, revokedAt: null }
  return { row, settings, secret }
}

/** Stores a client and adds an audit entry. */
export async function addClient(
  tx: Queryable,
  sealer: Sealer,
  { row, settings }: DraftClient,
  { now = Date.now, actor = theService }: ClientDeps,
): Promise<void> {
  await tx.insertInto('clients').values(row).execute()
  const entry = { ...actor, event: 'client.created', target: row.id, details: auditDetails(settings) } as const
  await auditRecorder(sealer, now)(tx, entry)
}

/**
 * Registers a client and returns it with its secret; the database stores only a digest of the secret. Throws
 * DUPLICATE_RESOURCE if the id is taken, and the same VALIDATION_ERROR as `draftClient`.
 */
export async function createClient(
  db: Database,
  sealer: Sealer,
  known: Scopes,
  wanted: NewClient,
  deps: ClientDeps = {},
): Promise<{ client: RegisteredClient; secret: string | null }> {
  const draft = draftClient(sealer, known, wanted, deps)
  const add = db.write((tx) => addClient(tx, sealer, draft, deps))
  await add.catch((error) => refuseTakenId(db, draft.row.id, error))
  return { client: fromRow(draft.row), secret: draft.secret }
}

/** Throws DUPLICATE_RESOURCE if a registration failed because the id is taken; otherwise rethrows the error. */
export function refuseTakenId(db: Database, id: string, error: unknown): never {
  if (!db.engine.isDuplicate(error)) throw error
  const errors = [{ field: 'id', message: 'is in use already' }]
  throw new Problem('DUPLICATE_RESOURCE', `The client id "${id}" is already in use`, { errors, cause: error })
}

/** Returns a client's settings as recorded in the audit log. */
export const auditDetails = (settings: ClientSettings) => {
  const { name, scopes, grants, redirectUris, trusted, firstParty, introspectsOthers, rate, quota } = settings
  const labels = Object.entries(settings.labels).map(([key, value]) => `${key}=${value}`)
  const limits = Object.entries({ rate, quota }).filter(([, value]) => value !== null)
  return {
    ...{ name, scopes, grants, redirectUris, trusted, firstParty, introspectsOthers, labels },
    ...Object.fromEntries(limits),
  }
}

/** Lists all clients, oldest first, including revoked clients. */
export async function listClients(db: Database): Promise<RegisteredClient[]> {
  const rows = await db.read.selectFrom('clients').selectAll().orderBy('createdAt').orderBy('id').execute()
  return rows.map(fromRow)
}

const columns: (keyof Client)[] = [
  ...(['id', 'name', 'secretHash', 'scopes', 'grants', 'redirectUris', 'postLogoutRedirectUris'] as const),
  ...(['firstParty', 'trusted', 'introspectsOthers', 'labels', 'rate', 'quota'] as const),
  ...(['revision', 'sharesSecond', 'createdAt', 'updatedAt', 'lastUsedAt', 'revokedAt'] as const),
]

/**
 * Returns a function that finds unrevoked clients by id. The query is compiled only once, because every token request
 * runs it.
 */
export function clientFinder({ read, prepare }: Database): (id: string) => Promise<RegisteredClient | undefined> {
  const selected = columns.map((name) => sql<never>`${sql.ref(snake(name))}`.as(name))
  const unrevoked = sql<boolean>`revoked_at is null`
  const find = prepare<Client>(
    read.withoutPlugins().selectFrom('clients').select(selected).where('id', '=', '').where(unrevoked),
  )
  return async (id) => {
    const [row] = await find.all([id])
    return row && fromRow(row)
  }
}

/** Finds the client with this id, unless the client is revoked. */
export const findClient = (db: Database, id: string) => clientFinder(db)(id)
