import type { FastifyReply } from 'fastify'
import { Problem } from '../http/problems/problem.ts'
import { setRawHeaderLines } from '../http/server/raw-headers.ts'
import type { Month } from './calendar.ts'
import { remainingOf, secondsLeft, type Window } from './fixed-window.ts'
import { policyEnd } from './header-lines.ts'
import type { Limit } from './limit.ts'
import { type Allowance, quotaLeft } from './quota.ts'

/**
 * Sets the headers for the tightest window, both as X-RateLimit fields (reset in epoch seconds) and as fields from
 * draft-ietf-httpapi-ratelimit-headers-10 (reset in seconds from now). Lists every limit that applies to the operation.
 */
export function setRateLimitHeaders(
  reply: FastifyReply,
  tight: Window,
  general: Limit | null,
  own: Limit | null,
  atMs: number,
): void {
  const both = general !== null && own !== null
  const policies = both ? policyEnd(`${general.policy}, ${own.policy}`) : tight.lines.end
  setRawHeaderLines(reply, 'rate', rateLimitLines(tight, atMs, policies))
}

/** Returns the header lines of a window; `policies` is the end of the lines. */
export function rateLimitLines(tight: Window, atMs: number, policies = tight.lines.end): string {
  const { toLeft, toLeftAgain } = tight.lines
  const left = String(remainingOf(tight))
  return `${toLeft}${left}${toLeftAgain}${left};t=${secondsLeft(tight, atMs)}${policies}`
}

/** Returns the header lines of a quota. */
export const quotaLines = (one: Allowance, { quotaEnd }: Month): string =>
  `${one.quotaStart}${quotaLeft(one)}${quotaEnd}`

/** Sets the headers for the quota with fewer calls left. */
export function setQuotaHeaders(
  reply: FastifyReply,
  one: Allowance | null,
  other: Allowance | null,
  month: Month,
): void {
  const tight = one === null || (other !== null && quotaLeft(other) < quotaLeft(one)) ? other : one
  if (tight === null) return
  setRawHeaderLines(reply, 'quota', quotaLines(tight, month))
}

/** Returns the 429 for a call that exceeds the rate. */
export function rateExceeded(window: Window, atMs: number): Problem {
  const seconds = secondsLeft(window, atMs)
  const wait = seconds === 1 ? '1 second' : `${seconds} seconds`
  return new Problem('RATE_LIMIT_EXCEEDED', `Too many requests: wait ${wait}`, {
    headers: { 'retry-after': String(seconds) },
  })
}

/** Returns the 403 for a call that exceeds the quota. */
export function quotaExceeded({ name, limit }: Allowance, month: Month): Problem {
  const end = new Date(month.endsAtMs).toISOString().slice(0, 10)
  return new Problem('QUOTA_EXCEEDED', `The monthly quota of ${limit} ${name} is used up: it resets on ${end}`)
}
