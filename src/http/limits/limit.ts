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
