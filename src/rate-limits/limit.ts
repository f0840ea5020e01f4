/** A number of calls per number of seconds. */
export interface Rate {
  calls: number
  seconds: number
}

/** Operations with their own limit besides the general one; `none` in a route's `config.limit` exempts it from counting. */
export type LimitName = 'reports' | 'webhooks' | 'token'

/** A rate with the values that responses repeat, computed once. */
export interface Limit extends Rate {
  name: string
  /** Its index in the windows of an account. */
  slot: number
  windowMs: number
  /** Its RateLimit-Policy item (draft-ietf-httpapi-ratelimit-headers-10). */
  policy: string
  /**
   * True for a limit that protects secrets: while the shared counters are unavailable, the database counts it, not this
   * process.
   */
  isStrict: boolean
}

const slots = ['default', 'reports', 'webhooks', 'token']

/** A named limit: `default`, or the name of an operation. */
export function limitOf(name: string, { calls, seconds }: Rate): Limit {
  return {
    ...{ name, calls, seconds },
    slot: slots.indexOf(name),
    windowMs: seconds * 1_000,
    policy: `"${name}";q=${calls};w=${seconds}`,
    isStrict: name === 'token',
  }
}

/** Parses `6000/60`; the text must already be validated. */
export function rateOf(text: string): Rate {
  const [calls, seconds] = text.split('/').map(Number)
  return { calls: calls as number, seconds: seconds as number }
}

/** Fixed windows shared by several processes. Rejects when the store does not respond in time. */
export interface WindowStore {
  /** Adds a call to the key's window, which starts with its first call; `used` includes this call. */
  add: (key: string, seconds: number) => Promise<{ used: number; endsAtMs: number }>
  /** Null when no window is open. */
  look: (key: string) => Promise<{ used: number; endsAtMs: number } | null>
}

/** Monthly quotas, counted per calendar month; periods are named like `2026-11`. */
export interface QuotaStore {
  /** Atomically takes a call unless the limit is reached; `used` is the sum afterwards. */
  take: (key: string, period: string, limit: number) => Promise<{ used: number; isGranted: boolean }>
  /** Refunds a call that had no effect. */
  back: (key: string, period: string) => Promise<void>
  look: (key: string, period: string) => number | Promise<number>
}

/** Number of calls of a key in a period. */
export type Use = [key: string, period: string, calls: number]

/** Durable storage of quotas. */
export interface QuotaRecord extends QuotaStore {
  /** Adds uses; returns the resulting sums in the same order. */
  add: (uses: readonly Use[]) => Promise<number[]>
}

/** The counters in use. */
export interface Counters {
  record: QuotaRecord
  /** Null when only this process counts; admission is then synchronous. */
  shared: { windows: WindowStore; strictWindows: WindowStore; quotas: QuotaStore } | null
}
