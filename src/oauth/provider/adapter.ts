import { hash } from 'node:crypto'
import { type Adapter, type AdapterFactory, type AdapterPayload, errors } from 'oidc-provider'
import type { Database, Queryable } from '../../storage/database.ts'
import { iso, maxId } from '../../storage/ids.ts'
import type { AuthRecordsTable } from '../../storage/tables/auth.ts'
import type { Endings } from '../tokens/revocation-epoch.ts'
import { clientRecords } from './client-adapter.ts'

export interface RecordSources {
  db: Database
  /** Milliseconds since the epoch. */
  now: () => number
  /** Counts the tokens and grants that are ended. */
  endings?: Endings
}

/** Access tokens are judged by their signature; to revoke one marks its record, which stays until the token ends. */
export const accessTokenKinds = ['AccessToken', 'ClientCredentials']

/** Whose id alone is worth something to a thief: it is not kept, only its SHA-256. */
const secretKinds = ['AuthorizationCode', 'RefreshToken', 'Session', 'Interaction']

const kindsOfGrant = ['AuthorizationCode', 'RefreshToken']
/** A client that lost the answer to a refresh may ask once more this long, and gets the same successor. */
const refreshGraceMs = 10_000
const sweepBatch = 1_000
/**
 * The mark of a revoked token must outlast the token on every node: it is accepted 30 s after its end, by a clock that may be
 * 30 s behind on a node that is ready, and for five more seconds on one whose clock has just been moved.
 */
const sweepDelayMs = 5 * 60_000
/** Later than every instant. */
const never = '9999'

/** What oidc-provider remembers, in `auth_records`; its clients come from `clients` and are read only. */
export function records(sources: RecordSources): AdapterFactory {
  return (kind) => (kind === 'Client' ? clientRecords(sources.db) : recordsOf(kind, sources))
}

/** Deletes what expired five minutes ago or more, in batches so that nobody waits long, and returns how many there were. */
export async function sweepExpired(db: Database, now: () => number): Promise<number> {
  const before = iso(now() - sweepDelayMs)
  for (let swept = 0; ; ) {
    const batch = await db.write(async (tx) => {
      const due = tx.selectFrom('authRecords').select(['kind', 'id']).where('expiresAt', '<', before).limit(sweepBatch)
      const sweep = tx
        .deleteFrom('authRecords')
        .where((eb) => eb(eb.refTuple('kind', 'id'), 'in', due.$asTuple('kind', 'id')))
      return Number((await sweep.executeTakeFirstOrThrow()).numDeletedRows)
    })
    swept += batch
    if (batch < sweepBatch) return swept
  }
}

function recordsOf(kind: string, { db, now, endings = { count: 0 } }: RecordSources): Adapter {
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
      if (kind === 'Grant' || accessTokenKinds.includes(kind)) endings.count++
    },
    revokeByGrantId: async (grantId) => {
      await revokeByGrantId(db, grantId, iso(now()))
      endings.count++
    },
  }
}

/** What a record is found by. */
const keyOf = (kind: string, id: string) => (secretKinds.includes(kind) ? hash('sha256', id, 'base64url') : id)

/** A record as it was put, with the id it was asked for by in the place of its key. */
function payloadOf(row: AuthRecordsTable, id: string, nowMs: number): AdapterPayload | undefined {
  const { kind, consumedAt } = row
  const payload: AdapterPayload = JSON.parse(row.id === id ? row.payload : row.payload.replaceAll(row.id, id))
  if (consumedAt === null || isInGrace(kind, consumedAt, nowMs)) return payload
  if (accessTokenKinds.includes(kind)) return undefined
  return { ...payload, consumed: Math.floor(Date.parse(consumedAt) / 1_000) }
}

/** From then on a use of the token forgives a use before it; never, where none is forgiven. */
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
        // Nobody's, should the user be gone meanwhile.
        userId: userId && eb.selectFrom('users').select('users.id').where('users.id', '=', userId),
        expiresAt: expires || null,
        ...values,
      }))
      .onConflict((conflict) => {
        const same = conflict.columns(['kind', 'id'])
        // A refresh token is made once: who makes it again, within the grace, wants the one that is there.
        if (kind === 'RefreshToken') return same.doNothing()
        return same.doUpdateSet({ ...values, expiresAt: expires || null, userId: (eb) => eb.ref('excluded.userId') })
      })
      .execute(),
  )
}

/** An interaction repeats the id of the session it began in; nobody reads it there. */
function storedText({ session, ...payload }: AdapterPayload): string {
  return JSON.stringify(session ? { ...payload, session: { ...session, cookie: undefined } } : payload)
}

function userIdOf(accountId: string | undefined): number | null {
  const id = /^[1-9]\d{0,9}$/.test(accountId ?? '') ? Number(accountId) : Number.POSITIVE_INFINITY
  return id <= maxId ? id : null
}

/**
 * Of any number of callers at once exactly one succeeds, the others get `invalid_grant` (RFC 6749 §4.1.2); a refresh
 * token may be used again within its grace, as each use leads to the same successor.
 */
async function consume(db: Database, kind: string, id: string, nowMs: number): Promise<void> {
  if (!(await mark(db, kind, id, nowMs, graceStart(kind, nowMs))))
    throw new errors.InvalidGrant(`${kind} was used already`)
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

/** Ends every login of a user, and every access that was given in the user's name. */
export async function endAccess(tx: Queryable, userId: number, nowMs: number): Promise<void> {
  const own = tx.deleteFrom('authRecords').where('userId', '=', userId)
  await own.where('kind', 'not in', accessTokenKinds).execute()
  const tokens = tx
    .updateTable('authRecords')
    .set({ consumedAt: iso(nowMs) })
    .where('userId', '=', userId)
  await tokens.where('consumedAt', 'is', null).execute()
}
