import type { FastifyReply } from 'fastify'
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
  reply.header('x-ratelimit-limit', limit.callsText)
  reply.header('x-ratelimit-remaining', left)
  reply.header('x-ratelimit-reset', resetText)
  reply.header('ratelimit', `${limit.standing}${left};t=${secondsLeft(tight, atMs)}`)
  const both = general !== null && own !== null
  reply.header('ratelimit-policy', both ? `${general.policy}, ${own.policy}` : limit.policy)
}

/** Tells of the quota with less left. */
export function tellQuota(reply: FastifyReply, one: Allowance | null, other: Allowance | null, month: Month): void {
  const tight = one === null || (other !== null && quotaLeft(other) < quotaLeft(one)) ? other : one
  if (tight === null) return
  reply.header('x-quota-limit', tight.limitText)
  reply.header('x-quota-remaining', String(quotaLeft(tight)))
  reply.header('x-quota-reset', month.resetText)
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
