/** A number of calls per number of seconds. */
export interface Rate {
  calls: number
  seconds: number
}

/**
 * Operations that have a limit of their own in addition to the general limit. In a route's `config.limit`, `none`
 * exempts the route from counting.
 */
export type LimitName = 'reports' | 'webhooks' | 'token'

/** A rate with precomputed values that appear in many responses. */
export interface Limit extends Rate {
  name: string
  /** The index of this limit's window in an account's `windows`. */
  slot: number
  windowMs: number
  /** The limit's RateLimit-Policy item (draft-ietf-httpapi-ratelimit-headers-10). */
  policy: string
  /**
   * True for a limit that protects secrets: while Redis is unavailable, its calls are counted by the database rather
   * than by this process.
   */
  isStrict: boolean
}

const slots = ['default', 'reports', 'webhooks', 'token']

/** Creates a named limit; the name is `default` or the name of an operation. */
export function limitOf(name: string, { calls, seconds }: Rate): Limit {
  return {
    ...{ name, calls, seconds },
    slot: slots.indexOf(name),
    windowMs: seconds * 1_000,
    policy: `"${name}";q=${calls};w=${seconds}`,
    isStrict: name === 'token',
  }
}

/** Parses a rate such as `6000/60`; the text must already be validated. */
export function rateOf(text: string): Rate {
  const [calls, seconds] = text.split('/').map(Number)
  return { calls: calls as number, seconds: seconds as number }
}

/** Fixed windows shared by several processes. Methods reject if the store does not respond in time. */
export interface WindowStore {
  /** Adds a call to the key's window, which starts with its first call; `used` includes this call. */
  add: (key: string, seconds: number) => Promise<{ used: number; endsAtMs: number }>
  /** Returns the key's window, or null if no window is open. */
  look: (key: string) => Promise<{ used: number; endsAtMs: number } | null>
}

/** Monthly quotas, counted per calendar month; a period is a month such as `2026-11`. */
export interface QuotaStore {
  /** Atomically takes a call from the quota unless the limit is reached; `used` is the resulting total. */
  take: (key: string, period: string, limit: number) => Promise<{ used: number; isGranted: boolean }>
  /** Refunds a call, for example one that was refused after all. */
  back: (key: string, period: string) => Promise<void>
  look: (key: string, period: string) => number | Promise<number>
}

/** The number of calls for a key in a period. */
export type Use = [key: string, period: string, calls: number]

/** Durable quota storage. */
export interface QuotaRecord extends QuotaStore {
  /** Adds uses; returns the resulting totals in the same order. */
  add: (uses: readonly Use[]) => Promise<number[]>
}

/**
 * The counters that the service uses: durable quota storage and, if other processes share the counters, their stores.
 */
export interface Counters {
  record: QuotaRecord
  /** Null if no other process shares the counters; admission is then synchronous. */
  shared: { windows: WindowStore; strictWindows: WindowStore; quotas: QuotaStore } | null
}
