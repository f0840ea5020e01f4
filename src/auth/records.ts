import { type Adapter, type AdapterFactory, type AdapterPayload, errors } from 'oidc-provider'
import type { Database } from '../db/open.ts'
import type { AuthRecordsTable } from '../db/tables.ts'
import { clientRecords } from './client-records.ts'

export interface RecordSources {
  db: Database
  /** Milliseconds since the epoch. */
  now: () => number
}

/** Access tokens are judged by their signature; to revoke one marks its record, which stays until the token ends. */
export const accessTokenKinds = ['AccessToken', 'ClientCredentials']

const kindsOfGrant = ['AuthorizationCode', 'RefreshToken']
const sweepBatch = 1_000
/** Tokens are accepted a little after their end (clock skew), and their marks must last as long. */
const sweepDelayMs = 60_000
const instant = (ms: number) => new Date(ms).toISOString()

/** What oidc-provider remembers, in `auth_records`; its clients come from `clients` and are read only. */
export function records(sources: RecordSources): AdapterFactory {
  return (kind) => (kind === 'Client' ? clientRecords(sources.db) : recordsOf(kind, sources))
}

/** Deletes what expired a minute ago or more, in batches so that nobody waits long, and returns how many there were. */
export async function sweepExpired(db: Database, now: () => number): Promise<number> {
  const before = instant(now() - sweepDelayMs)
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

function recordsOf(kind: string, { db, now }: RecordSources): Adapter {
  const find = async (column: 'id' | 'uid' | 'userCode', value: string) => {
    const row = await db.read
      .selectFrom('authRecords')
      .selectAll()
      .where('kind', '=', kind)
      .where(column, '=', value)
      .where((eb) => eb.or([eb('expiresAt', 'is', null), eb('expiresAt', '>', instant(now()))]))
      .executeTakeFirst()
    return row && payloadOf(row)
  }
  return {
    find: (id) => find('id', id),
    findByUid: (uid) => find('uid', uid),
    findByUserCode: (userCode) => find('userCode', userCode),
    upsert: (id, payload, seconds) => upsert(db, kind, id, payload, seconds && instant(now() + seconds * 1_000)),
    consume: (id) => consume(db, kind, id, instant(now())),
    destroy: async (id) => {
      await (accessTokenKinds.includes(kind) ? mark(db, kind, id, instant(now())) : remove(db, kind, id))
    },
    revokeByGrantId: (grantId) => revokeByGrantId(db, grantId, instant(now())),
  }
}

function payloadOf({ kind, payload, consumedAt }: AuthRecordsTable): AdapterPayload | undefined {
  if (consumedAt === null) return JSON.parse(payload)
  if (accessTokenKinds.includes(kind)) return undefined
  return { ...JSON.parse(payload), consumed: Math.floor(Date.parse(consumedAt) / 1_000) }
}

async function upsert(
  db: Database,
  kind: string,
  id: string,
  payload: AdapterPayload,
  expires: string | 0 | undefined,
): Promise<void> {
  const { grantId = null, uid = null, userCode = null } = payload
  const values = { payload: JSON.stringify(payload), grantId, uid, userCode, expiresAt: expires || null }
  await db.write((tx) =>
    tx
      .insertInto('authRecords')
      .values({ kind, id, consumedAt: null, ...values })
      .onConflict((conflict) => conflict.columns(['kind', 'id']).doUpdateSet(values))
      .execute(),
  )
}

/** Of any number of callers at once exactly one succeeds; the others get `invalid_grant` (RFC 6749 §4.1.2). */
async function consume(db: Database, kind: string, id: string, consumedAt: string): Promise<void> {
  if (!(await mark(db, kind, id, consumedAt))) throw new errors.InvalidGrant(`${kind} was used already`)
}

async function mark(db: Database, kind: string, id: string, consumedAt: string): Promise<boolean> {
  const { numUpdatedRows } = await db.write((tx) =>
    tx
      .updateTable('authRecords')
      .set({ consumedAt })
      .where('kind', '=', kind)
      .where('id', '=', id)
      .where('consumedAt', 'is', null)
      .executeTakeFirstOrThrow(),
  )
  return numUpdatedRows > 0n
}

async function remove(db: Database, kind: string, id: string): Promise<void> {
  await db.write((tx) => tx.deleteFrom('authRecords').where('kind', '=', kind).where('id', '=', id).execute())
}

async function revokeByGrantId(db: Database, grantId: string, consumedAt: string): Promise<void> {
  await db.write(async (tx) => {
    await tx.deleteFrom('authRecords').where('grantId', '=', grantId).where('kind', 'in', kindsOfGrant).execute()
    const tokens = tx.updateTable('authRecords').set({ consumedAt }).where('grantId', '=', grantId)
    await tokens.where('kind', 'in', accessTokenKinds).where('consumedAt', 'is', null).execute()
  })
}
