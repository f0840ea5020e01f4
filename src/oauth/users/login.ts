import { timingSafeEqual } from 'node:crypto'
import type { Audit } from '../../audit/buffer.ts'
import type { AuditActor } from '../../audit/chain.ts'
import type { Database } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import { iso } from '../../storage/ids.ts'
import { caseFold } from '../../storage/rows/page-query.ts'
import { type Account, accountByEmail, type Role } from './accounts.ts'
import type { LoginTries } from './login-throttle.ts'
import { isTooLong } from './password-policy.ts'
import type { Passwords } from './passwords.ts'

export interface Credentials {
  email: string
  password: string
  /** The client address. */
  address: string
  /** The token from an earlier login on this device, if the browser sent one. */
  deviceToken?: string | undefined
  /** The client and request, for audit entries. */
  by?: Pick<AuditActor, 'clientId' | 'requestId'>
}

/**
 * The account and a new device token, or the seconds to wait; 0 seconds means that the credentials were not accepted.
 */
export type LoginResult = { account: Account; deviceToken: string } | { waitSeconds: number }

/** Verifies an e-mail address and password. Rejects with SERVICE_UNAVAILABLE if too many logins are running. */
export type Login = (credentials: Credentials) => Promise<LoginResult>

export interface LoginOptions {
  db: Database
  sealer: Sealer
  passwords: Passwords
  tries: LoginTries
  /** Returns the current time in ms since the epoch. */
  now: () => number
  random: (size: number) => Uint8Array
  /**
   * Audits successful, failed and blocked logins. Entries never contain the e-mail address as typed, because a user may
   * have typed a password there.
   */
  audit?: Pick<Audit, 'note' | 'tally'>
}

const maxEmail = 254
/** Maximum number of times that a password is verified if the stored hash keeps changing. */
const maxVerifications = 3

/**
 * Creates the login function used by the login page and the password grant. An unknown address, an account without a
 * password, a locked account and a wrong password produce the same result after the same amount of work (T-AUTH-03). A
 * successful login replaces an outdated hash.
 */
export function createPasswordLogin({ db, sealer, passwords, tries, random, now, audit }: LoginOptions): Login {
  const devices = deviceTokens(sealer, random)
  return async ({ email, password, address, deviceToken, by }) => {
    const from = { ...by, address }
    const failed = (account?: Account, details?: { locked: true }) => {
      const target = account ? String(account.userId) : null
      audit?.tally({ ...from, event: 'login.failed', target, ...(details && { details }) })
    }
    const emailKey = caseFold(email.trim())
    const attempt = { emailKey, address, device: devices.read(deviceToken, emailKey) }
    const waitSeconds = await tries.count(attempt)
    if (waitSeconds > 0) {
      audit?.tally({ ...from, event: 'login.blocked' })
      return { waitSeconds }
    }
    // No stored password or address is this long, so hashing the password would only waste time.
    if (isTooLong(password) || emailKey.length > maxEmail) {
      failed()
      return { waitSeconds: 0 }
    }
    const verified = await verifiedAccount(db, passwords, email, password, now)
    if ('failed' in verified) {
      failed(verified.failed, verified.isLocked ? { locked: true } : undefined)
      return { waitSeconds: 0 }
    }
    const { account, hash } = verified
    audit?.note({ ...from, event: 'login.succeeded', subject: String(account.userId) })
    await tries.forget(attempt)
    if (passwords.isOutdated(hash)) await rehash(db, passwords, account.userId, hash, password)
    return { account, deviceToken: devices.issue(emailKey) }
  }
}

type Verified = { account: Account; hash: string } | { failed: Account | undefined; isLocked?: boolean }

/**
 * Verifies a password, stores the time of the login, and returns the account with its current role. If the stored hash
 * has changed in the meantime, tries again with the new hash, because a concurrent login may have replaced an outdated
 * one.
 */
async function verifiedAccount(
  db: Database,
  passwords: Passwords,
  email: string,
  password: string,
  now: () => number,
): Promise<Verified> {
  let failed: Account | undefined
  for (let attempt = 1; attempt <= maxVerifications; attempt++) {
    const account = await accountByEmail(db, email)
    const hash = account?.passwordHash ?? null
    if (!(await passwords.verify(password, hash)) || !account || hash === null) return { failed: account }
    const role = await recordLogin(db, account.userId, hash, now())
    if (role !== undefined) return { account: { ...account, role }, hash }
    if (account.lockedAt !== null) return { failed: account, isLocked: true }
    failed = account
  }
  return { failed }
}

/** Stores the time of a login and returns the role; undefined if the account is locked or has another password hash. */
async function recordLogin(db: Database, userId: number, hash: string, nowMs: number): Promise<Role | undefined> {
  const updated = await db.write((tx) =>
    tx
      .updateTable('accounts')
      .set({ lastLoginAt: iso(nowMs) })
      .where('userId', '=', userId)
      .where('passwordHash', '=', hash)
      .where('lockedAt', 'is', null)
      .returning('role')
      .executeTakeFirst(),
  )
  return updated?.role
}

async function rehash(db: Database, passwords: Passwords, userId: number, from: string, password: string) {
  const passwordHash = await passwords.hash(password)
  const change = (tx: Database['read']) =>
    tx.updateTable('accounts').set({ passwordHash }).where('userId', '=', userId).where('passwordHash', '=', from)
  await db.write((tx) => change(tx).execute())
}

/**
 * Manages tokens for devices on which a user has logged in; strangers' failed attempts do not delay logins on these
 * devices.
 */
function deviceTokens(sealer: Sealer, random: (size: number) => Uint8Array) {
  const macOf = (id: string, emailKey: string) => Buffer.from(sealer.digest(`${id}\0${emailKey}`, 'device'))
  return {
    issue: (emailKey: string) => {
      const id = Buffer.from(random(16)).toString('base64url')
      return `${id}.${macOf(id, emailKey)}`
    },
    read: (token: string | undefined, emailKey: string): string | undefined => {
      const [id = '', mac = ''] = token?.split('.') ?? []
      const expected = macOf(id, emailKey)
      const presented = Buffer.from(mac)
      return presented.length === expected.length && timingSafeEqual(presented, expected) ? id : undefined
    },
  }
}
