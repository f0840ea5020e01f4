import { networkOf } from '../../http/headers/client-address.ts'
import type { Database, Queryable } from '../../storage/database.ts'
import type { Sealer } from '../../storage/encryption.ts'
import { iso } from '../../storage/ids.ts'
import { sweepBelow } from '../../storage/sweep.ts'

/**
 * Limits on password attempts: per network per minute, per account per hour, and the number of attempts before delays
 * begin.
 */
export interface TryLimits {
  perMinuteAndNetwork: number
  perHourAndAccount: number
  free: number
}

/** A password attempt: the account, the client address, and the id of a device known from an earlier login. */
export interface Try {
  emailKey: string
  address: string
  device: string | undefined
}

/** Counts password attempts in the database, so that the limits apply across all nodes and restarts (T-AUTH-01). */
export interface LoginTries {
  /** Counts an attempt. Returns 0 if the attempt may proceed; otherwise, the seconds to wait. */
  count: (attempt: Try) => Promise<number>
  /**
   * After a successful login, resets the counter of the device or, for an unknown device, of the account and network.
   * Does not reset the limits per account and per network.
   */
  forget: (attempt: Try) => Promise<void>
  /** Reads the counter of an account. */
  read: (emailKey: string) => Promise<AccountTries>
}

/**
 * The password attempts counted for an account in its current one-hour window. Attempts on known devices do not count.
 */
export interface AccountTries {
  count: number
  /** When the next attempt is allowed; null if it is allowed now. */
  blockedUntil: string | null
}

/** The limits in production. */
export const tryLimits: TryLimits = { perMinuteAndNetwork: 20, perHourAndAccount: 100, free: 5 }

const minuteMs = 60_000
const hourMs = 3_600_000
const quarterMs = 900_000

interface Counter {
  count: number
  endsAt: string
  blockedUntil: string | null
}

export function loginTries(db: Database, sealer: Sealer, now: () => number, limits: TryLimits = tryLimits): LoginTries {
  const accountOf = (emailKey: string) => sealer.digest(emailKey, 'login_tries').slice(0, 22)
  const keysOf = ({ emailKey, address, device }: Try) => {
    const account = accountOf(emailKey)
    const network = networkOf(address)
    // A known device has its own counter, so that strangers cannot lock out its owner.
    return { network, account, pair: device ? `device:${device}` : `pair:${account}:${network}`, known: !!device }
  }
  return {
    count: (attempt) => {
      const { network, account, pair, known } = keysOf(attempt)
      const at = now()
      return db.write(async (tx) => {
        const waits =
          (await over(tx, `network:${network}`, limits.perMinuteAndNetwork, minuteMs, at)) ||
          (await delayed(tx, pair, limits.free, at)) ||
          (known ? 0 : await over(tx, `account:${account}`, limits.perHourAndAccount, hourMs, at))
        return Math.ceil(waits / 1_000)
      })
    },
    forget: async (attempt) => {
      await db.write((tx) => tx.deleteFrom('loginTries').where('key', '=', keysOf(attempt).pair).execute())
    },
    read: async (emailKey) => {
      const counter = db.read.selectFrom('loginTries').select(['count', 'endsAt'])
      const open = counter.where('key', '=', `account:${accountOf(emailKey)}`).where('endsAt', '>', iso(now()))
      const { count, endsAt } = (await open.executeTakeFirst()) ?? { count: 0, endsAt: null }
      return { count, blockedUntil: count >= limits.perHourAndAccount ? endsAt : null }
    },
  }
}

/** Removes expired counters; returns their number. */
export function sweepLoginTries(db: Database, now: () => number): Promise<number> {
  return sweepBelow(db, { table: 'login_tries', key: ['key'], column: 'ends_at' }, iso(now()))
}

/**
 * Increments a fixed-window counter. Returns the milliseconds until the window ends if the limit is exceeded, otherwise
 * 0.
 */
async function over(tx: Queryable, key: string, max: number, windowMs: number, at: number): Promise<number> {
  const { count, endsAt } = await increase(tx, key, windowMs, at)
  return count > max ? Math.max(1, Date.parse(endsAt) - at) : 0
}

/**
 * If a delay is pending, returns the milliseconds left. Otherwise, increments the counter and returns 0. After the free
 * attempts, the delay doubles with each attempt, up to 15 minutes.
 */
async function delayed(tx: Queryable, key: string, free: number, at: number): Promise<number> {
  const { count, blockedUntil } = await increase(tx, key, quarterMs, at)
  const left = blockedUntil === null ? 0 : Date.parse(blockedUntil) - at
  const tries = left > 0 ? count - 1 : count
  const delayMs = tries < free ? 0 : Math.min(quarterMs, 1_000 * 2 ** (tries - free))
  const until = left > 0 ? blockedUntil : delayMs > 0 ? iso(at + delayMs) : null
  const change = {
    count: tries,
    blockedUntil: until,
    endsAt: iso(Math.max(at, Date.parse(until ?? iso(at))) + quarterMs),
  }
  await tx.updateTable('loginTries').set(change).where('key', '=', key).execute()
  return Math.max(0, left)
}

/** Increments a counter, or restarts it if its window has ended; locks the row until the transaction ends. */
async function increase(tx: Queryable, key: string, windowMs: number, at: number): Promise<Counter> {
  await tx.deleteFrom('loginTries').where('key', '=', key).where('endsAt', '<=', iso(at)).execute()
  return tx
    .insertInto('loginTries')
    .values({ key, count: 1, endsAt: iso(at + windowMs), blockedUntil: null })
    .onConflict((conflict) => conflict.column('key').doUpdateSet((eb) => ({ count: eb('loginTries.count', '+', 1) })))
    .returning(['count', 'endsAt', 'blockedUntil'])
    .executeTakeFirstOrThrow()
}

const lifeSeconds = 180 * 86_400

/**
 * Defines the cookie that identifies a known device. The cookie does not authenticate; it only selects an attempt
 * counter. Over plain HTTP, which is for local use only, the cookie has no prefix and is not `Secure`.
 */
export function deviceCookie(issuer: string) {
  const isSecure = issuer.startsWith('https:')
  const name = `${isSecure ? '__Host-' : ''}plinth_device`
  const pattern = new RegExp(`(?:^|;)\\s*${name}=([\\w.-]{1,200})(?:;|$)`)
  return {
    /** Returns the token from an earlier login on this device, if the browser sent one. */
    tokenIn: (cookie: string | undefined): string | undefined => pattern.exec(cookie ?? '')?.[1],
    /** Returns a Set-Cookie value with this token. */
    withToken: (token: string): string =>
      `${name}=${token}; Path=/; Max-Age=${lifeSeconds};${isSecure ? ' Secure;' : ''} HttpOnly; SameSite=Lax`,
  }
}
