import type { AuditActor, AuditEntry, RecordAudit } from '../../audit/chain.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { Queryable } from '../../storage/database.ts'
import type { Engine } from '../../storage/engine.ts'
import { iso } from '../../storage/ids.ts'
import { endAccess } from '../tokens/auth-records.ts'
import { assertAdministratorLeft, isActiveAdministrator, lockUser, openAccount, type Role } from './accounts.ts'

/** The changes to make; absent members stay unchanged. */
export interface AccountChange {
  role?: Role
  locked?: boolean
}

export interface AccountChanger {
  engine: Engine
  record: RecordAudit
  actor: AuditActor
  nowMs: number
}

/**
 * Changes a user's role, or locks or unlocks the account, in the caller's transaction. Setting a role or locking
 * creates a missing account. Each change is audited, ends the user's sessions, and revokes grants and tokens. Throws
 * RESOURCE_NOT_FOUND, or LAST_ADMINISTRATOR if no user could then log in as an administrator.
 */
export async function changeAccount(
  tx: Queryable,
  { engine, record, actor, nowMs }: AccountChanger,
  userId: number,
  { role, locked }: AccountChange,
): Promise<void> {
  if (!(await lockUser(tx, engine, userId))) throw new Problem('RESOURCE_NOT_FOUND', `There is no user ${userId}`)
  const accounts = tx.selectFrom('accounts').select(['role', 'lockedAt']).where('userId', '=', userId)
  const before = await accounts.executeTakeFirst()
  const entries: Pick<AuditEntry, 'event' | 'details'>[] = []
  if (role !== undefined && role !== before?.role) {
    await openAccount(tx, userId, role, nowMs)
    entries.push({ event: 'account.role_changed', details: { role } })
  }
  const wasLocked = before !== undefined && before.lockedAt !== null
  if (locked !== undefined && locked !== wasLocked) {
    await (locked ? lock : unlock)(tx, userId, nowMs)
    entries.push({ event: locked ? 'account.locked' : 'account.unlocked' })
  }
  for (const entry of entries) await record(tx, { ...actor, ...entry, target: String(userId) })
}

/** Locks an account, and deletes any open invitation, because its recipient may no longer be trusted. */
async function lock(tx: Queryable, userId: number, nowMs: number): Promise<void> {
  await openAccount(tx, userId, undefined, nowMs)
  const wasAdministrator = await isActiveAdministrator(tx, userId)
  await tx
    .updateTable('accounts')
    .set({ lockedAt: iso(nowMs) })
    .where('userId', '=', userId)
    .execute()
  if (wasAdministrator) await assertAdministratorLeft(tx)
  await tx.deleteFrom('invitations').where('userId', '=', userId).execute()
  await endAccess(tx, userId, nowMs)
}

/**
 * Unlocks an account. Also revokes all access, so that tokens issued while the account was being locked stay invalid.
 */
async function unlock(tx: Queryable, userId: number, nowMs: number): Promise<void> {
  await tx.updateTable('accounts').set({ lockedAt: null }).where('userId', '=', userId).execute()
  await endAccess(tx, userId, nowMs)
}
