import { Problem } from '../../http/problems/problem.ts'
import type { Queryable } from '../../storage/database.ts'
import { idOrNone, iso } from '../../storage/ids.ts'
import { clientNames } from '../../storage/names.ts'
import { endAccess, endGrants, kindsOfGrant } from '../tokens/auth-records.ts'

/** A user's login in a browser. */
export interface SessionView {
  /** Identifies the session, but grants no access. */
  id: string
  startedAt: string
  /** When a client last obtained a token through this login; `startedAt` if no such token is stored. */
  lastUsedAt: string
  expiresAt: string
  /** The clients that the user logged in to; `name` is null for a deleted client. */
  clients: { id: string; name: string | null }[]
}

/** A client's access on behalf of a user. */
export interface GrantView {
  clientId: string
  clientName: string | null
  /** The scopes for which the client can get tokens; empty if only the consent remains. */
  scopes: string[]
  /** When the oldest grant was created; null if only the consent remains. */
  since: string | null
  /** When the client last obtained a token; null if no token is stored. */
  lastTokenAt: string | null
  /** The stored consent; null if there is none, as for first-party clients. */
  consent: { scopes: string[]; updatedAt: string } | null
}

/** The payload members used in this file; times are in seconds. */
interface Payload {
  iat?: number
  clientId?: string
  loginTs?: number
  authorizations?: Record<string, { grantId?: string }>
  openid?: { scope?: string }
  resources?: Record<string, string>
}

const grantKinds = ['Grant', 'AccessToken', ...kindsOfGrant]
const instantOf = (seconds: number) => iso(seconds * 1_000)
const words = (text = '') => text.split(' ').filter(Boolean)

/** Throws RESOURCE_NOT_FOUND if there is no such user. */
export async function requireUser(db: Queryable, userId: number): Promise<void> {
  const user = db.selectFrom('users').select('id').where('id', '=', idOrNone(userId))
  if (!(await user.executeTakeFirst())) throw new Problem('RESOURCE_NOT_FOUND', `There is no user ${userId}`)
}

/** Returns a user's unexpired records of these kinds. */
async function recordsOf(db: Queryable, userId: number, kinds: readonly string[], nowMs: number) {
  const rows = await db
    .selectFrom('authRecords')
    .select(['kind', 'id', 'uid', 'grantId', 'consumedAt', 'expiresAt', 'payload'])
    .where('userId', '=', idOrNone(userId))
    .where('kind', 'in', kinds)
    .where('expiresAt', '>', iso(nowMs))
    .execute()
  return rows.map(({ payload, ...row }) => ({ ...row, payload: JSON.parse(payload) as Payload }))
}

type UserRecord = Awaited<ReturnType<typeof recordsOf>>[number]

const ofKind = (records: readonly UserRecord[], kind: string) => records.filter((record) => record.kind === kind)
const grantIdsOf = ({ authorizations = {} }: Payload) =>
  Object.values(authorizations).flatMap(({ grantId }) => grantId ?? [])

/** Returns when a token was last issued under one of these grants, in seconds; -Infinity if there is no token. */
function lastTokenOf(records: readonly UserRecord[], grantIds: readonly string[]): number {
  const issued = records.filter(({ grantId }) => grantId !== null && grantIds.includes(grantId))
  return Math.max(...issued.map(({ payload }) => payload.iat ?? 0))
}

/** Returns a user's sessions, newest first. */
export async function userSessions(db: Queryable, userId: number, nowMs: number): Promise<SessionView[]> {
  const records = await recordsOf(db, userId, ['Session', 'AccessToken', 'RefreshToken'], nowMs)
  const sessions = ofKind(records, 'Session')
  const names = await clientNames(db, [...new Set(sessions.flatMap(({ payload }) => clientsOf(payload)))])
  const views = sessions.map(({ uid, expiresAt, payload }) => {
    const startedAt = payload.loginTs ?? payload.iat ?? 0
    return {
      id: String(uid),
      startedAt: instantOf(startedAt),
      lastUsedAt: instantOf(Math.max(startedAt, lastTokenOf(records, grantIdsOf(payload)))),
      expiresAt: String(expiresAt),
      clients: clientsOf(payload).map((id) => ({ id, name: names.get(id) ?? null })),
    }
  })
  return views.sort((one, other) => (one.startedAt > other.startedAt ? -1 : 1))
}

/**
 * Returns the clients that obtained a grant in a session. Clients that were denied access have no grant and are
 * omitted.
 */
const clientsOf = ({ authorizations = {} }: Payload) =>
  Object.entries(authorizations).flatMap(([clientId, { grantId }]) => (grantId === undefined ? [] : clientId))

/** Returns the access that each client has on behalf of a user, and the consents. */
export async function userGrants(db: Queryable, userId: number, nowMs: number): Promise<GrantView[]> {
  const records = await recordsOf(db, userId, ['Grant', 'AccessToken', 'RefreshToken'], nowMs)
  const remembered = db.selectFrom('consents').select(['clientId', 'scopes', 'updatedAt'])
  const consents = await remembered.where('userId', '=', idOrNone(userId)).execute()
  const grants = Map.groupBy(ofKind(records, 'Grant'), ({ payload }) => String(payload.clientId))
  const ids = [...new Set([...grants.keys(), ...consents.map(({ clientId }) => clientId)])].sort()
  const names = await clientNames(db, ids)
  return ids.map((clientId) => {
    const own = grants.get(clientId) ?? []
    const consent = consents.find((one) => one.clientId === clientId)
    const grantIds = own.map(({ id }) => id)
    const lastToken = lastTokenOf(records, grantIds)
    return {
      clientId,
      clientName: names.get(clientId) ?? null,
      scopes: [...new Set(own.flatMap(({ payload }) => scopesOf(payload)))],
      since: own.length > 0 ? instantOf(Math.min(...own.map(({ payload }) => payload.iat ?? 0))) : null,
      lastTokenAt: Number.isFinite(lastToken) ? instantOf(lastToken) : null,
      consent: consent ? { scopes: words(consent.scopes), updatedAt: consent.updatedAt } : null,
    }
  })
}

const scopesOf = ({ openid, resources = {} }: Payload) => [
  ...words(openid?.scope),
  ...Object.values(resources).flatMap((scope) => words(scope)),
]

/**
 * Ends a user's session, and revokes the grants and tokens that clients obtained in it. Returns the ids of these
 * clients. Throws RESOURCE_NOT_FOUND if the user has no such session.
 */
export async function endSession(tx: Queryable, userId: number, sessionId: string, nowMs: number): Promise<string[]> {
  const sessions = tx.deleteFrom('authRecords').where('userId', '=', idOrNone(userId)).where('kind', '=', 'Session')
  const ended = await sessions.where('uid', '=', sessionId).returning('payload').executeTakeFirst()
  if (ended === undefined) throw new Problem('RESOURCE_NOT_FOUND', 'The user has no such session')
  const payload = JSON.parse(ended.payload) as Payload
  await endGrants(tx, userId, grantIdsOf(payload), nowMs)
  return clientsOf(payload)
}

/** Ends all of a user's sessions and revokes all grants and tokens. Returns the number of sessions. */
export async function endSessions(tx: Queryable, userId: number, nowMs: number): Promise<number> {
  await requireUser(tx, userId)
  const sessions = await recordsOf(tx, userId, ['Session'], nowMs)
  await endAccess(tx, userId, nowMs)
  return sessions.length
}

/**
 * Revokes a client's grants and tokens for a user, and deletes the consent. Throws RESOURCE_NOT_FOUND if the client has
 * neither a grant nor a consent.
 */
export async function endClientAccess(tx: Queryable, userId: number, clientId: string, nowMs: number): Promise<void> {
  const records = await recordsOf(tx, userId, grantKinds, nowMs)
  const isEnded = ({ kind, consumedAt }: UserRecord) => kind === 'AccessToken' && consumedAt !== null
  const own = records.filter((record) => record.payload.clientId === clientId && !isEnded(record))
  const grantIds = new Set(own.flatMap(({ kind, id, grantId }) => (kind === 'Grant' ? id : (grantId ?? []))))
  await endGrants(tx, userId, [...grantIds], nowMs)
  const consents = tx.deleteFrom('consents').where('userId', '=', idOrNone(userId)).where('clientId', '=', clientId)
  const { numDeletedRows } = await consents.executeTakeFirstOrThrow()
  if (grantIds.size === 0 && numDeletedRows === 0n)
    throw new Problem('RESOURCE_NOT_FOUND', 'The client has no access on behalf of this user')
}
