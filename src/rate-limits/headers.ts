import type { FastifyReply } from 'fastify'
import { Problem } from '../http/problems/problem.ts'
import { setRawHeaderLines } from '../http/server/raw-headers.ts'
import { remainingOf, secondsLeft, type Window } from './fixed-window.ts'
import { policyEnd } from './header-lines.ts'
import type { Limit } from './limit.ts'
import { type Allowance, type Month, quotaLeft } from './quota.ts'

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
  const { toLeft, toLeftAgain, end } = tight.lines
  const left = String(remainingOf(tight))
  const both = general !== null && own !== null
  const policies = both ? policyEnd(`${general.policy}, ${own.policy}`) : end
  setRawHeaderLines(reply, 'rate', `${toLeft}${left}${toLeftAgain}${left};t=${secondsLeft(tight, atMs)}${policies}`)
}

/** Tells of the quota with less left. */
export function tellQuota(reply: FastifyReply, one: Allowance | null, other: Allowance | null, month: Month): void {
  const tight = one === null || (other !== null && quotaLeft(other) < quotaLeft(one)) ? other : one
  if (tight === null) return
  setRawHeaderLines(reply, 'quota', `${tight.quotaStart}${quotaLeft(tight)}${month.quotaEnd}`)
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
export function quotaExceeded({ name, limit }: Allowance, month: Month): Problem {
  const end = new Date(month.endsAtMs).toISOString().slice(0, 10)
  return new Problem('QUOTA_EXCEEDED', `The quota of ${limit} ${name} a month is used up until ${end}`)
}
