import { sql } from 'kysely'
import type { FindAccount } from 'oidc-provider'
import { passwordChanged, type RecordAudit, theService } from '../../audit/chain.ts'
import { isUserId } from '../../http/policies/authenticate.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Engine } from '../../storage/engine.ts'
import { idOrNone } from '../../storage/ids.ts'
import { caseFold } from '../../storage/rows/page-query.ts'
import { firstRevision } from '../../storage/rows/revision.ts'
import { endAccess } from '../tokens/auth-records.ts'
import type { Passwords } from './passwords.ts'

export type Role = 'user' | 'admin'

/** A user's account. The user can log in if the account has a password and is not locked. */
export interface Account {
  userId: number
  name: string
  email: string
  role: Role
  passwordHash: string | null
  /** When an administrator locked the account; null if it is not locked. */
  lockedAt: string | null
}

// The column names are qualified, because a service may add fields with the same names to users.
const columns = [
  ...(['users.id as userId', 'users.name', 'users.email'] as const),
  ...(['accounts.role', 'accounts.passwordHash', 'accounts.lockedAt'] as const),
] as const

const accountsIn = (db: Queryable) =>
  db.selectFrom('users').innerJoin('accounts', 'accounts.userId', 'users.id').select(columns)

/** Finds an account by e-mail address, ignoring case and Unicode form. */
export function accountByEmail(db: Database, email: string): Promise<Account | undefined> {
  return accountsIn(db.read).where('users.emailKey', '=', caseFold(email.trim())).executeTakeFirst()
}

/** Finds an account by its subject (`sub`), which is the user's id. */
export async function accountBySubject(db: Database, subject: string): Promise<Account | undefined> {
  if (!isUserId(subject)) return undefined
  return accountsIn(db.read).where('users.id', '=', Number(subject)).executeTakeFirst()
}

/** Lists all accounts, ordered by user id. */
export function listAccounts(db: Database): Promise<Account[]> {
  return accountsIn(db.read).orderBy('users.id').execute()
}

/** Returns whether any account exists. */
export async function hasAccounts(db: Database): Promise<boolean> {
  return (await db.read.selectFrom('accounts').select('userId').limit(1).executeTakeFirst()) !== undefined
}

/**
 * Reads a user's name and e-mail address and locks the row until the transaction ends. Administrative changes to a user
 * or an account lock this row first, so they never run concurrently.
 */
export function lockUser(tx: Queryable, { lockRows }: Engine, userId: number) {
  const user = tx.selectFrom('users').select(['name', 'email']).where('id', '=', idOrNone(userId))
  return user.modifyEnd(lockRows).executeTakeFirst()
}

/** Contains literals instead of parameters, so that both engines use the partial index `accounts_administrators`. */
const isAdministrator = sql<boolean>`role = 'admin' and password_hash is not null and locked_at is null`

/** Returns whether the user can log in as an administrator. */
export async function isActiveAdministrator(tx: Queryable, userId: number): Promise<boolean> {
  const account = tx.selectFrom('accounts').select('userId').where('userId', '=', userId).where(isAdministrator)
  return (await account.executeTakeFirst()) !== undefined
}

/**
 * Locked by every transaction that removes an administrator, before it checks whether another one is left. This
 * prevents concurrent checks.
 */
const administratorLock = { name: 'administrators', value: '' }

/**
 * Throws LAST_ADMINISTRATOR if no remaining user can log in as an administrator. Call this after the change, in the
 * same transaction; concurrent callers wait until that transaction ends.
 */
export async function assertAdministratorLeft(tx: Queryable): Promise<void> {
  await tx
    .insertInto('settings')
    .values(administratorLock)
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ value: '' }))
    .execute()
  const left = tx.selectFrom('accounts').select('userId').where(isAdministrator).limit(1)
  if ((await left.executeTakeFirst()) !== undefined) return
  const detail = 'This is the last administrator who can log in: another one must have a password first'
  throw new Problem('LAST_ADMINISTRATOR', detail)
}

/**
 * Creates a user's account without a password, or changes the role of an existing account, which ends the user's access
 * (T-AUTH-07). Throws LAST_ADMINISTRATOR if afterwards no user could log in as an administrator.
 */
export async function openAccount(tx: Queryable, userId: number, role: Role | undefined, nowMs: number): Promise<void> {
  const existing = await tx.selectFrom('accounts').select('role').where('userId', '=', userId).executeTakeFirst()
  if (existing && (role === undefined || existing.role === role)) return
  const demoted = role !== 'admin' && (await isActiveAdministrator(tx, userId))
  const row = { userId, role: role ?? 'user', createdAt: new Date(nowMs).toISOString() }
  await tx
    .insertInto('accounts')
    .values({ ...row, passwordHash: null, passwordChangedAt: null })
    .onConflict((conflict) => conflict.column('userId').doUpdateSet({ role: row.role }))
    .execute()
  if (demoted) await assertAdministratorLeft(tx)
  await endAccess(tx, userId, nowMs)
}

/**
 * Stores a password hash, ends the user's logins, revokes the tokens, and deletes the consents and any open invitation.
 */
export async function setPasswordHash(tx: Queryable, userId: number, passwordHash: string, nowMs: number) {
  const passwordChangedAt = new Date(nowMs).toISOString()
  await tx.updateTable('accounts').set({ passwordHash, passwordChangedAt }).where('userId', '=', userId).execute()
  await tx.deleteFrom('invitations').where('userId', '=', userId).execute()
  await tx.deleteFrom('consents').where('userId', '=', userId).execute()
  await endAccess(tx, userId, nowMs)
}

/** Creates a user without publishing an event. Rejects if the e-mail address is in use. */
export async function addUser(tx: Queryable, name: string, email: string, nowMs: number): Promise<number> {
  const at = new Date(nowMs).toISOString()
  const keys = { nameKey: caseFold(name), emailKey: caseFold(email) }
  const row = { name, email, ...keys, ...firstRevision(at), address: null, phone: null }
  return (await tx.insertInto('users').values(row).returning('id').executeTakeFirstOrThrow()).id
}

/**
 * Creates oidc-provider's account lookup. ID tokens contain the name and e-mail address regardless of the scopes, as
 * the API contract requires; OpenID Connect Core §5.4 would leave these claims to userinfo.
 */
export function accountFinder(db: Database): FindAccount {
  return async (_ctx, subject) => {
    const account = await accountBySubject(db, subject)
    if (!account?.passwordHash || account.lockedAt !== null) return undefined
    const { name, email, role } = account
    return { accountId: subject, role, claims: () => ({ sub: subject, name, email }) }
  }
}

const email = 'admin@localhost'
const passwordBytes = 15

/**
 * Creates an administrator with a random password if there are no accounts yet, and returns the credentials; otherwise
 * returns null. If several processes start together, only one creates the administrator (T-AUTH-07), because the e-mail
 * address is unique.
 */
export async function createFirstAdmin(
  db: Database,
  passwords: Passwords,
  now: () => number,
  random: (size: number) => Uint8Array,
  record: RecordAudit,
): Promise<{ email: string; password: string } | null> {
  if (await hasAccounts(db)) return null
  const password = Buffer.from(random(passwordBytes)).toString('base64url')
  const hash = await passwords.hash(password)
  const at = now()
  try {
    await db.write(async (tx) => {
      const userId = await addUser(tx, 'Administrator', email, at)
      await openAccount(tx, userId, 'admin', at)
      await setPasswordHash(tx, userId, hash, at)
      await record(tx, passwordChanged(String(userId), theService))
    })
  } catch (error) {
    if (db.engine.isDuplicate(error)) return null
    throw error
  }
  return { email, password }
}
