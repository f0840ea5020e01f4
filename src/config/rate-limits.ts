import { url } from './address.ts'
import { Expected, named, optional, type Setting, setting } from './setting.ts'

const rateForm = /^([1-9]\d{0,8})\/([1-9]\d{0,4})$/
const paceForm = /^([1-9]\d{0,8})\/([1-9]\d{0,4}):([1-9]\d{0,8})$/
/** The path is the database number. */
const redisForm = /^rediss?:\/\/[^/?#]+(\/\d{0,4})?(\?.*)?$/
const maxWindowSeconds = 86_400

/** `6000/60`: calls per window in seconds; `off` is null. */
const rate = (fallback: string, about: string) =>
  setting(
    (value) => {
      if (value === 'off') return null
      const [, calls, seconds] = rateForm.exec(value)?.map(Number) ?? []
      if (calls === undefined || seconds === undefined || seconds > maxWindowSeconds) {
        throw new Expected('calls/seconds, such as 6000/60, with at most 86400 seconds, or off')
      }
      return { calls, seconds }
    },
    fallback,
    about,
  )

/** `200/1:400`: calls per period in seconds, after a burst; `off` is null. */
const pace = (fallback: string, about: string) =>
  setting(
    (value) => {
      if (value === 'off') return null
      const [, calls, seconds, burst] = paceForm.exec(value)?.map(Number) ?? []
      if (calls === undefined || seconds === undefined || burst === undefined) {
        throw new Expected('calls/seconds:burst, such as 200/1:400, or off')
      }
      return { calls, seconds, burst }
    },
    fallback,
    about,
  )

/** Calls per calendar month; `off` is null. */
const quota = (fallback: string, about: string) =>
  setting(
    (value) => {
      if (value === 'off') return null
      if (!/^[1-9]\d{0,8}$/.test(value)) throw new Expected('a whole number from 1 to 999999999, or off')
      return Number(value)
    },
    fallback,
    about,
  )

/** Rate limits; in development ten times as high, so that a client's tests do not hit them. */
export const limitSettings = (production: boolean) => {
  const of = (calls: number) => `${production ? calls : 10 * calls}/60`
  return {
    rateLimit: named('PLINTH_RATE_LIMIT', rate(of(6000), 'Calls/seconds of each API key or client and subject; off')),
    rateLimitAnonymous: named(
      'PLINTH_RATE_LIMIT_ANONYMOUS',
      rate(of(60), 'Calls/seconds of each network without a good token or key; off'),
    ),
    rateLimitReports: named('PLINTH_RATE_LIMIT_REPORTS', rate(of(30), 'Calls/seconds that ask for reports; off')),
    rateLimitWebhooks: named('PLINTH_RATE_LIMIT_WEBHOOKS', rate(of(30), 'Calls/seconds that register webhooks; off')),
    rateLimitToken: named(
      'PLINTH_RATE_LIMIT_TOKEN',
      rate(of(20), 'Calls/seconds of each network for tokens, their introspection and revocation, and logins; off'),
    ),
    throttle: named(
      'PLINTH_THROTTLE',
      pace(production ? '200/1:400' : '2000/1:4000', 'Calls/seconds:burst beyond which calls are delayed; off'),
    ),
    quotaRequests: named('PLINTH_QUOTA_REQUESTS', quota('10000000', 'Requests of an account in a calendar month; off')),
    quotaReports: named('PLINTH_QUOTA_REPORTS', quota('100000', 'Reports of an account in a calendar month; off')),
    redisUrl: named(
      'REDIS_URL',
      optional(url('Redis or Valkey that counts for all nodes', redisForm, 'redis://host:port/0 or rediss://…')),
    ),
  }
}

/** The limits as the policy takes them; null if all are off. */
export function limitRules(config: { [Key in keyof ReturnType<typeof limitSettings>]: Value<Key> }) {
  const { rateLimit, rateLimitAnonymous, rateLimitReports, rateLimitWebhooks, rateLimitToken } = config
  const { throttle, quotaRequests, quotaReports } = config
  const limits = [rateLimit, rateLimitAnonymous, rateLimitReports, rateLimitWebhooks, rateLimitToken]
  if ([...limits, throttle, quotaRequests, quotaReports].every((one) => one === null)) return null
  return {
    ...{ general: rateLimit, anonymous: rateLimitAnonymous, reports: rateLimitReports },
    ...{ webhooks: rateLimitWebhooks, token: rateLimitToken, throttle },
    quotas: { requests: quotaRequests, reports: quotaReports },
  }
}

type Value<Key extends keyof ReturnType<typeof limitSettings>> =
  ReturnType<typeof limitSettings>[Key] extends Setting<infer T> ? T : never
