import { hash } from 'node:crypto'
import { type AuditActor, passwordChanged, type RecordAudit } from '../../audit/chain.ts'
import { Problem } from '../../http/problems/problem.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import { iso } from '../../storage/ids.ts'
import { sweepBelow } from '../../storage/sweep.ts'
import { invitationPath } from '../provider/http/endpoints.ts'
import { lockUser, openAccount, type Role, setPasswordHash } from './accounts.ts'
import { passwordError } from './password-policy.ts'
import type { Passwords } from './passwords.ts'

/** A single-use link for setting a password. */
export interface Invitation {
  url: string
  expiresAt: string
  name: string
  email: string
}

export interface Invitations {
  /**
   * Invites a user: creates the account or changes its role if necessary, and replaces any open invitation. Throws
   * RESOURCE_NOT_FOUND or LAST_ADMINISTRATOR.
   */
  invite: (userId: number, role: Role | undefined, actor: AuditActor) => Promise<Invitation>
  /** Like `invite`, but in the caller's transaction. */
  inviteIn: (
    tx: Queryable,
    userId: number,
    role: Role | undefined,
    actor: AuditActor,
    /** The role to record in the audit log, if it differs from the account's role. */
    recordedRole?: string,
  ) => Promise<Invitation>
  /**
   * Returns the user to whom a link belongs; undefined if the link was used or replaced, has expired or never existed.
   */
  read: (token: string) => Promise<{ name: string; email: string } | undefined>
  /** Sets the password. Returns the reason if the password is not acceptable, or 'invalid' if the link is not valid. */
  accept: (
    token: string,
    password: string,
    actor: AuditActor,
    /** Stores additional fields of the user, in the same transaction. */
    store?: (tx: Queryable, userId: number) => Promise<void>,
  ) => Promise<'set' | 'invalid' | { error: string }>
}

export interface InvitationOptions {
  db: Database
  passwords: Passwords
  /** The origin of the links. */
  issuer: string
  now: () => number
  random: (size: number) => Uint8Array
  /** Records audit entries for invitations and for the passwords set through them. */
  record: RecordAudit
}

const lifeMs = 30 * 60_000
const tokenBytes = 32
const keyOf = (token: string) => hash('sha256', token, 'base64url')

/**
 * Manages invitations. Their tokens have 256 random bits, are valid for half an hour and are stored as SHA-256 hashes
 * (T-AUTH-04).
 */
export function invitations({ db, passwords, issuer, now, random, record }: InvitationOptions): Invitations {
  const read = (token: string) => open(db.read, token, now()).executeTakeFirst()
  const invite: Invitations['inviteIn'] = async (tx, userId, role, actor, recordedRole = role) => {
    const user = await lockUser(tx, db.engine, userId)
    if (!user) throw new Problem('RESOURCE_NOT_FOUND', `There is no user ${userId}`)
    const token = Buffer.from(random(tokenBytes)).toString('base64url')
    const at = now()
    const row = { tokenHash: keyOf(token), expiresAt: iso(at + lifeMs) }
    await openAccount(tx, userId, role, at)
    await tx
      .insertInto('invitations')
      .values({ userId, ...row })
      .onConflict((conflict) => conflict.column('userId').doUpdateSet(row))
      .execute()
    const details = { ...(recordedRole && { role: recordedRole }) }
    await record(tx, { ...actor, event: 'invitation.created', target: String(userId), details })
    return { url: `${issuer}${invitationPath}?token=${token}`, expiresAt: row.expiresAt, ...user }
  }
  return {
    invite: (userId, role, actor) => db.write((tx) => invite(tx, userId, role, actor)),
    inviteIn: invite,
    read,
    accept: async (token, password, actor, store) => {
      const invited = await read(token)
      if (!invited) return 'invalid'
      const error = await passwordError(password, invited)
      if (error !== undefined) return { error }
      const passwordHash = await passwords.hash(password)
      const isSet = await db.write(async (tx) => {
        const userId = await use(tx, token, passwordHash, now())
        if (userId === undefined) return false
        await store?.(tx, userId)
        await record(tx, passwordChanged(String(userId), { ...actor, subject: String(userId) }))
        return true
      })
      return isSet ? 'set' : 'invalid'
    },
  }
}

function open(db: Queryable, token: string, nowMs: number) {
  return db
    .selectFrom('invitations')
    .innerJoin('users', 'users.id', 'invitations.userId')
    .select(['users.id as userId', 'users.name', 'users.email'])
    .where('invitations.tokenHash', '=', keyOf(token))
    .where('invitations.expiresAt', '>', iso(nowMs))
}

/** Redeems a link. If a link is used concurrently, only the request whose DELETE finds the row sets the password. */
async function use(tx: Queryable, token: string, passwordHash: string, nowMs: number): Promise<number | undefined> {
  const used = await tx
    .deleteFrom('invitations')
    .where('tokenHash', '=', keyOf(token))
    .where('expiresAt', '>', iso(nowMs))
    .returning('userId')
    .executeTakeFirst()
  if (used) await setPasswordHash(tx, used.userId, passwordHash, nowMs)
  return used?.userId
}

/** Removes expired invitations; returns their number. */
export function sweepInvitations(db: Database, now: () => number): Promise<number> {
  return sweepBelow(db, { table: 'invitations', key: ['user_id'], column: 'expires_at' }, iso(now()))
}
