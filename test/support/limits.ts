import type { LimitRules } from '../../src/rate-limits/limiter.ts'

/** Returns rate limits that consist of only the given rules. */
export const rulesOf = (rules: Partial<LimitRules>): LimitRules => ({
  ...{ general: null, anonymous: null, reports: null, webhooks: null, token: null, throttle: null },
  quotas: { requests: null, reports: null },
  ...rules,
})

/** Environment variables that disable all limits. */
export const withoutLimits: Record<string, string> = Object.fromEntries(
  [
    ...['PLINTH_RATE_LIMIT', 'PLINTH_RATE_LIMIT_ANONYMOUS', 'PLINTH_RATE_LIMIT_REPORTS', 'PLINTH_RATE_LIMIT_WEBHOOKS'],
    ...['PLINTH_RATE_LIMIT_TOKEN', 'PLINTH_THROTTLE', 'PLINTH_QUOTA_REQUESTS', 'PLINTH_QUOTA_REPORTS'],
  ].map((name) => [name, 'off']),
)
