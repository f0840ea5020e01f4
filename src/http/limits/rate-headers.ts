import type { FastifyReply } from 'fastify'
import { putLines } from '../header-section.ts'
import { Problem } from '../problem.ts'
import type { Limit } from './limit.ts'
import type { Month } from './month.ts'
import { type Allowance, quotaLeft } from './quota.ts'
import { remainingOf, secondsLeft, type Window } from './windows.ts'

/**
 * Tells of the window that is tightest, in the usual headers (the reset as epoch seconds) and in those of
 * draft-ietf-httpapi-ratelimit-headers-10 (the reset as seconds from now), and of every limit of the operation.
 */
export function tellRate(
  reply: FastifyReply,
  tight: Window,
  general: Limit | null,
  own: Limit | null,
  atMs: number,
): void {
  const { limit, resetText } = tight
  const left = String(remainingOf(tight))
  const policy = general !== null && own !== null ? `${general.policy}, ${own.policy}` : limit.policy
  const usual = `${limit.callsLine}x-ratelimit-remaining: ${left}\r\nx-ratelimit-reset: ${resetText}\r\n`
  const drafted = `ratelimit: ${limit.standing}${left};t=${secondsLeft(tight, atMs)}\r\nratelimit-policy: ${policy}\r\n`
  putLines(reply, 'rate', usual + drafted)
}

/** Tells of the quota with less left. */
export function tellQuota(reply: FastifyReply, one: Allowance | null, other: Allowance | null, month: Month): void {
  const tight = one === null || (other !== null && quotaLeft(other) < quotaLeft(one)) ? other : one
  if (tight === null) return
  const left = `x-quota-remaining: ${quotaLeft(tight)}\r\n`
  putLines(reply, 'quota', `x-quota-limit: ${tight.limitText}\r\n${left}x-quota-reset: ${month.resetText}\r\n`)
}

/** The refusal of a call beyond a rate. */
export function rateExceeded(window: Window, atMs: number): Problem {
  const seconds = secondsLeft(window, atMs)
  const wait = seconds === 1 ? '1 second' : `${seconds} seconds`
  return new Problem('RATE_LIMIT_EXCEEDED', `Too many requests: wait ${wait}`, {
    headers: { 'retry-after': String(seconds) },
  })
}

/** The refusal of a call beyond a quota. */
export function quotaExceeded({ name, limitText }: Allowance, month: Month): Problem {
  const end = new Date(month.endsAtMs).toISOString().slice(0, 10)
  return new Problem('QUOTA_EXCEEDED', `The quota of ${limitText} ${name} a month is used up until ${end}`)
}
