/** So many calls in so many seconds. */
export interface Rate {
  calls: number
  seconds: number
}

/** Operations with a limit of their own besides the general one; `none` in a route's `config.limit` is counted nowhere. */
export type LimitName = 'reports' | 'webhooks' | 'token'

/** A rate with everything about it that answers repeat, made once. */
export interface Limit extends Rate {
  name: string
  /** Its place among the windows of an account. */
  slot: number
  windowMs: number
  /** Its item of RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-10). */
  policy: string
  /** Guards secrets: when the shared counters are out of reach it is counted in the database, not in this process. */
  isStrict: boolean
}

const slots = ['default', 'reports', 'webhooks', 'token']

/** A rate under its name: `default`, or the name of an operation. */
export function limitOf(name: string, { calls, seconds }: Rate): Limit {
  return {
    ...{ name, calls, seconds },
    slot: slots.indexOf(name),
    windowMs: seconds * 1_000,
    policy: `"${name}";q=${calls};w=${seconds}`,
    isStrict: name === 'token',
  }
}

/** `6000/60` as a rate; for texts that were checked when they were taken. */
export function rateOf(text: string): Rate {
  const [calls, seconds] = text.split('/').map(Number)
  return { calls: calls as number, seconds: seconds as number }
}

/** What several processes count together in fixed windows. Rejects when the store does not answer in time. */
export interface WindowStore {
  /** Adds a call to the key's window, begun by its first; `used` is the sum after it. */
  add: (key: string, seconds: number) => Promise<{ used: number; endsAtMs: number }>
  /** Null when no window is open. */
  look: (key: string) => Promise<{ used: number; endsAtMs: number } | null>
}

/** Allowances of calendar months; a period is named `2026-11`. */
export interface QuotaStore {
  /** Takes a call unless the limit is reached, in one step; `used` is the sum after it. */
  take: (key: string, period: string, limit: number) => Promise<{ used: number; isGranted: boolean }>
  /** Gives back a call that came to nothing. */
  back: (key: string, period: string) => Promise<void>
  look: (key: string, period: string) => number | Promise<number>
}

/** A key's use of a period. */
export type Use = [key: string, period: string, calls: number]

/** Where quotas outlive every process. */
export interface QuotaRecord extends QuotaStore {
  /** Adds uses and returns the sums after them, in their order. */
  add: (uses: readonly Use[]) => Promise<number[]>
}

/** Where calls are counted. */
export interface Counters {
  record: QuotaRecord
  /** Null where this process counts alone: answers then wait for nothing. */
  shared: { windows: WindowStore; strictWindows: WindowStore; quotas: QuotaStore } | null
}
