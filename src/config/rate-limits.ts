import { url } from './address.ts'
import { Expected, named, optional, type Profile, type SettingValues, setting } from './setting.ts'

const rateForm = /^([1-9]\d{0,8})\/([1-9]\d{0,4})$/
const paceForm = /^([1-9]\d{0,8})\/([1-9]\d{0,4}):([1-9]\d{0,8})$/
/** Matches a Redis URL, whose path is the database number. */
const redisForm = /^rediss?:\/\/[^/?#]+(\/\d{0,4})?(\?.*)?$/
const maxWindowSeconds = 86_400

/** Defines a rate such as `6000/60`: 6,000 requests per 60-second window. `off` becomes null. */
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

/**
 * Defines a rate with a burst, such as `200/1:400`: 200 requests per second after a burst of 400. `off` becomes null.
 */
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

/** Defines a number of requests per calendar month. `off` becomes null. */
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

/**
 * Defines the rate limit settings. In development, the default rates are ten times as high, so that a client's tests do
 * not reach them.
 */
export const rateLimitSettings = ({ production }: Profile) => {
  const of = (calls: number) => `${production ? calls : 10 * calls}/60`
  return {
    general: named('PLINTH_RATE_LIMIT', rate(of(6000), 'Requests/seconds of an API key, or a client and subject; off')),
    anonymous: named(
      'PLINTH_RATE_LIMIT_ANONYMOUS',
      rate(of(60), 'Requests/seconds of a network without a valid token or key; off'),
    ),
    reports: named('PLINTH_RATE_LIMIT_REPORTS', rate(of(30), 'Requests/seconds that create reports; off')),
    webhooks: named('PLINTH_RATE_LIMIT_WEBHOOKS', rate(of(30), 'Requests/seconds that register webhooks; off')),
    token: named(
      'PLINTH_RATE_LIMIT_TOKEN',
      rate(of(20), 'Requests/seconds of a network for tokens, introspection, revocation and logins; off'),
    ),
    throttle: named(
      'PLINTH_THROTTLE',
      pace(production ? '200/1:400' : '2000/1:4000', 'Requests/seconds:burst beyond which requests are delayed; off'),
    ),
    quotaRequests: named('PLINTH_QUOTA_REQUESTS', quota('10000000', 'Requests of an account per calendar month; off')),
    quotaReports: named('PLINTH_QUOTA_REPORTS', quota('100000', 'Reports of an account per calendar month; off')),
    redisUrl: named(
      'REDIS_URL',
      optional(url('Redis or Valkey that counts for all nodes', redisForm, 'redis://host:port/0 or rediss://…')),
    ),
  }
}

/** Returns the limits in the format that the policy expects, or null if all are off. */
export function limitRules({ redisUrl, ...limits }: SettingValues<ReturnType<typeof rateLimitSettings>>) {
  if (Object.values(limits).every((limit) => limit === null)) return null
  const { quotaRequests: requests, quotaReports: reports, ...rules } = limits
  return { ...rules, quotas: { requests, reports } }
}
