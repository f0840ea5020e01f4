import { hash } from 'node:crypto'
import { type Adapter, type AdapterFactory, type AdapterPayload, errors } from 'oidc-provider'
import type { Database } from '../../storage/database.ts'
import { iso, maxId } from '../../storage/ids.ts'
import type { AuthRecordsTable } from '../../storage/tables/auth.ts'
import { accessTokenKinds, kindsOfGrant } from '../tokens/auth-records.ts'
import type { RevocationEpoch } from '../tokens/revocation-epoch.ts'
import { clientRecords } from './client-adapter.ts'

export interface RecordSources {
  db: Database
  /** Returns the current time in ms since the epoch. */
  now: () => number
  /** Counts revocations of tokens and grants. */
  revocations?: RevocationEpoch
}

/** Record kinds with an id that is itself a credential; only the SHA-256 hash of the id is stored. */
const secretKinds = ['AuthorizationCode', 'RefreshToken', 'Session', 'Interaction']

/** How long a client that lost a refresh response may repeat the request and get the same new refresh token. */
const refreshGraceMs = 10_000
/** Sorts after every ISO timestamp. */
const never = '9999'

/**
 * Creates the oidc-provider adapter, which stores models in the table `auth_records`. Clients are read-only and come
 * from the table `clients`.
 */
export function records(sources: RecordSources): AdapterFactory {
  return (kind) => (kind === 'Client' ? clientRecords(sources.db) : recordsOf(kind, sources))
}

/** Returns the adapter of oidc-provider for one kind of record. */
function recordsOf(kind: string, { db, now, revocations = { count: 0 } }: RecordSources): Adapter {
  const find = async (column: 'id' | 'uid' | 'userCode', value: string) => {
    const row = await db.read
      .selectFrom('authRecords')
      .selectAll()
      .where('kind', '=', kind)
      .where(column, '=', column === 'id' ? keyOf(kind, value) : value)
      .where((eb) => eb.or([eb('expiresAt', 'is', null), eb('expiresAt', '>', iso(now()))]))
      .executeTakeFirst()
    return row && payloadOf(row, column === 'id' ? value : row.id, now())
  }
  return {
    find: (id) => find('id', id),
    findByUid: (uid) => find('uid', uid),
    findByUserCode: (userCode) => find('userCode', userCode),
    upsert: (id, payload, seconds) => upsert(db, kind, id, payload, seconds && iso(now() + seconds * 1_000)),
    consume: (id) => consume(db, kind, id, now()),
    destroy: async (id) => {
      await (accessTokenKinds.includes(kind) ? mark(db, kind, id, now(), never) : remove(db, kind, id))
      if (kind === 'Grant' || accessTokenKinds.includes(kind)) revocations.count++
    },
    revokeByGrantId: async (grantId) => {
      await revokeByGrantId(db, grantId, iso(now()))
      revocations.count++
    },
  }
}

/** Returns the key under which a record is stored. */
const keyOf = (kind: string, id: string) => (secretKinds.includes(kind) ? hash('sha256', id, 'base64url') : id)

/** Returns the stored payload with the requested id in place of its hash; undefined for a revoked access token. */
function payloadOf(row: AuthRecordsTable, id: string, nowMs: number): AdapterPayload | undefined {
  const { kind, consumedAt } = row
  const payload: AdapterPayload = JSON.parse(row.id === id ? row.payload : row.payload.replaceAll(row.id, id))
  if (consumedAt === null || isInGrace(kind, consumedAt, nowMs)) return payload
  if (accessTokenKinds.includes(kind)) return undefined
  return { ...payload, consumed: Math.floor(Date.parse(consumedAt) / 1_000) }
}

/**
 * Returns the start of the current grace period: a refresh token first used after this time may be used again. Returns
 * `never` for other kinds, which have no grace period.
 */
const graceStart = (kind: string, nowMs: number) => (kind === 'RefreshToken' ? iso(nowMs - refreshGraceMs) : never)
const isInGrace = (kind: string, consumedAt: string, nowMs: number) => consumedAt > graceStart(kind, nowMs)

async function upsert(
  db: Database,
  kind: string,
  id: string,
  payload: AdapterPayload,
  expires: string | 0 | undefined,
): Promise<void> {
  const { grantId = null, uid = null, userCode = null } = payload
  const key = keyOf(kind, id)
  const text = storedText(payload)
  const values = { payload: text.replaceAll(id, key), grantId, uid: uid === id ? null : uid, userCode }
  const userId = userIdOf(payload.accountId)
  await db.write((tx) =>
    tx
      .insertInto('authRecords')
      .values((eb) => ({
        kind,
        id: key,
        consumedAt: null,
        // If the user has just been deleted, this subquery returns null; inserting the old id would violate the foreign
        // key.
        userId: userId && eb.selectFrom('users').select('users.id').where('users.id', '=', userId),
        expiresAt: expires || null,
        ...values,
      }))
      .onConflict((conflict) => {
        const same = conflict.columns(['kind', 'id'])
        // A refresh token is created only once; repeating a refresh within the grace period returns the existing token.
        if (kind === 'RefreshToken') return same.doNothing()
        return same.doUpdateSet({ ...values, expiresAt: expires || null, userId: (eb) => eb.ref('excluded.userId') })
      })
      .execute(),
  )
}

/**
 * Serializes a payload. Omits the session cookie from an interaction's copy of the session, because it is unused there.
 */
function storedText({ session, ...payload }: AdapterPayload): string {
  return JSON.stringify(session ? { ...payload, session: { ...session, cookie: undefined } } : payload)
}

function userIdOf(accountId: string | undefined): number | null {
  const id = /^[1-9]\d{0,9}$/.test(accountId ?? '') ? Number(accountId) : Number.POSITIVE_INFINITY
  return id <= maxId ? id : null
}

/**
 * Marks a record as used. Exactly one of several concurrent callers succeeds; the others get `invalid_grant` (RFC 6749
 * §4.1.2). A refresh token may be used again within its grace period, because each use returns the same successor.
 */
async function consume(db: Database, kind: string, id: string, nowMs: number): Promise<void> {
  if (!(await mark(db, kind, id, nowMs, graceStart(kind, nowMs))))
    throw new errors.InvalidGrant(`${kind} has already been used`)
}

async function mark(db: Database, kind: string, id: string, nowMs: number, since: string): Promise<boolean> {
  const { numUpdatedRows } = await db.write((tx) =>
    tx
      .updateTable('authRecords')
      .set((eb) => ({ consumedAt: eb.fn.coalesce('consumedAt', eb.val(iso(nowMs))) }))
      .where('kind', '=', kind)
      .where('id', '=', keyOf(kind, id))
      .where((eb) => eb.or([eb('consumedAt', 'is', null), eb('consumedAt', '>', since)]))
      .executeTakeFirstOrThrow(),
  )
  return numUpdatedRows > 0n
}

async function remove(db: Database, kind: string, id: string): Promise<void> {
  await db.write((tx) =>
    tx.deleteFrom('authRecords').where('kind', '=', kind).where('id', '=', keyOf(kind, id)).execute(),
  )
}

async function revokeByGrantId(db: Database, grantId: string, consumedAt: string): Promise<void> {
  await db.write(async (tx) => {
    await tx.deleteFrom('authRecords').where('grantId', '=', grantId).where('kind', 'in', kindsOfGrant).execute()
    const tokens = tx.updateTable('authRecords').set({ consumedAt }).where('grantId', '=', grantId)
    await tokens.where('kind', 'in', accessTokenKinds).where('consumedAt', 'is', null).execute()
  })
}
