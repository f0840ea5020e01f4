import type { Database, Queryable } from '../../storage/database.ts'
import { iso } from '../../storage/ids.ts'
import { inSteps, maxSwept } from '../../storage/sweep.ts'

/**
 * The record kinds of access tokens. Access tokens are verified by signature, so a revocation marks the record instead
 * of deleting it; the record is retained until the token expires.
 */
export const accessTokenKinds = ['AccessToken', 'ClientCredentials']

/**
 * How long expired records are retained. A revocation must outlast its token on every node: a token is accepted for 30
 * s after it expires, a ready node's clock may be 30 s behind, and a node stays ready for up to 5 s after its clock
 * changes.
 */
const sweepDelayMs = 5 * 60_000

/**
 * Deletes expired records after a delay of five minutes, in short transactions. Returns the number of deleted records.
 */
export async function sweepExpired(db: Database, now: () => number): Promise<number> {
  const before = iso(now() - sweepDelayMs)
  return inSteps(db, async (tx) => {
    const due = tx.selectFrom('authRecords').select(['kind', 'id']).where('expiresAt', '<', before).limit(maxSwept)
    const sweep = tx
      .deleteFrom('authRecords')
      .where((eb) => eb(eb.refTuple('kind', 'id'), 'in', due.$asTuple('kind', 'id')))
    return Number((await sweep.executeTakeFirstOrThrow()).numDeletedRows)
  })
}

/** Ends all of a user's sessions and revokes all access that the user has granted. */
export async function endAccess(tx: Queryable, userId: number, nowMs: number): Promise<void> {
  const own = tx.deleteFrom('authRecords').where('userId', '=', userId)
  await own.where('kind', 'not in', accessTokenKinds).execute()
  const tokens = tx
    .updateTable('authRecords')
    .set({ consumedAt: iso(nowMs) })
    .where('userId', '=', userId)
  await tokens.where('consumedAt', 'is', null).execute()
}

/** The record kinds that are deleted with their grant; access tokens are marked instead. */
export const kindsOfGrant = ['AuthorizationCode', 'RefreshToken']
const grantsPerStatement = 500

/** Revokes these grants of a user and all tokens issued under them. */
export async function endGrants(tx: Queryable, userId: number, grantIds: readonly string[], nowMs: number) {
  for (let at = 0; at < grantIds.length; at += grantsPerStatement) {
    const ids = grantIds.slice(at, at + grantsPerStatement)
    const own = tx.deleteFrom('authRecords').where('userId', '=', userId)
    await own.where('kind', '=', 'Grant').where('id', 'in', ids).execute()
    await own.where('kind', 'in', kindsOfGrant).where('grantId', 'in', ids).execute()
    const tokens = tx
      .updateTable('authRecords')
      .set({ consumedAt: iso(nowMs) })
      .where('userId', '=', userId)
    await tokens.where('grantId', 'in', ids).where('consumedAt', 'is', null).execute()
  }
}
