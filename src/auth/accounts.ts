import type { FindAccount } from 'oidc-provider'
import { fold } from '../db/fold.ts'
import type { Database, Queryable } from '../db/open.ts'
import { firstRevision } from '../db/revision.ts'
import { endAccess } from './records.ts'

export type Role = 'user' | 'admin'

/** A user who may log in once there is a password. */
export interface Account {
  userId: number
  name: string
  email: string
  role: Role
  passwordHash: string | null
}

const columns = ['users.id as userId', 'users.name', 'users.email', 'role', 'passwordHash'] as const

const accountsIn = (db: Queryable) =>
  db.selectFrom('users').innerJoin('accounts', 'accounts.userId', 'users.id').select(columns)

/** The account of an e-mail address, without regard to its case and Unicode form. */
export function accountByEmail(db: Database, email: string): Promise<Account | undefined> {
  return accountsIn(db.read).where('emailKey', '=', fold(email.trim())).executeTakeFirst()
}

/** The account of a subject (`sub`), which is the user's id. */
export async function accountBySubject(db: Database, subject: string): Promise<Account | undefined> {
  if (!/^[1-9]\d{0,8}$/.test(subject)) return undefined
  return accountsIn(db.read).where('users.id', '=', Number(subject)).executeTakeFirst()
}

/** All accounts, in the order of their users. */
export function listAccounts(db: Database): Promise<Account[]> {
  return accountsIn(db.read).orderBy('users.id').execute()
}

/** Whether anybody can log in at all. */
export async function hasAccounts(db: Database): Promise<boolean> {
  return (await db.read.selectFrom('accounts').select('userId').limit(1).executeTakeFirst()) !== undefined
}

/** Makes a user an account without a password; another role for an account that is there ends its access (T-AUTH-07). */
export async function openAccount(tx: Queryable, userId: number, role: Role | undefined, nowMs: number): Promise<void> {
  const existing = await tx.selectFrom('accounts').select('role').where('userId', '=', userId).executeTakeFirst()
  if (existing && (role === undefined || existing.role === role)) return
  const row = { userId, role: role ?? 'user', createdAt: new Date(nowMs).toISOString() }
  await tx
    .insertInto('accounts')
    .values({ ...row, passwordHash: null, passwordChangedAt: null })
    .onConflict((conflict) => conflict.column('userId').doUpdateSet({ role: row.role }))
    .execute()
  await endAccess(tx, userId, nowMs)
}

/** Sets a password by its hash. Logins, tokens, consents and the open invitation of the user end with it. */
export async function setPasswordHash(tx: Queryable, userId: number, passwordHash: string, nowMs: number) {
  const passwordChangedAt = new Date(nowMs).toISOString()
  await tx.updateTable('accounts').set({ passwordHash, passwordChangedAt }).where('userId', '=', userId).execute()
  await tx.deleteFrom('invitations').where('userId', '=', userId).execute()
  await tx.deleteFrom('consents').where('userId', '=', userId).execute()
  await endAccess(tx, userId, nowMs)
}

/** Adds a user of whom nobody is told. Rejects when the e-mail address is in use. */
export async function addUser(tx: Queryable, name: string, email: string, nowMs: number): Promise<number> {
  const at = new Date(nowMs).toISOString()
  const keys = { nameKey: fold(name), emailKey: fold(email) }
  const row = { name, email, ...keys, ...firstRevision(at), address: null, phone: null }
  return (await tx.insertInto('users').values(row).returning('id').executeTakeFirstOrThrow()).id
}

/**
 * The accounts as oidc-provider asks for them. An ID token tells name and e-mail address whatever the scopes are: that is
 * this interface's promise, though OpenID Connect Core §5.4 would keep them for userinfo.
 */
export function accountFinder(db: Database): FindAccount {
  return async (_ctx, subject) => {
    const account = await accountBySubject(db, subject)
    if (!account?.passwordHash) return undefined
    const { name, email, role } = account
    return { accountId: subject, role, claims: () => ({ sub: subject, name, email }) }
  }
}
