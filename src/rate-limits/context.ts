import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Problem } from '../http/problems/problem.ts'
import { isUnrouted, routeConfig } from '../http/route-config.ts'
import type { Accounts, Bucket } from './account.ts'
import type { calendar, Month } from './calendar.ts'
import { isExceeded, type Window } from './fixed-window.ts'
import { quotaExceeded, rateExceeded, setQuotaHeaders, setRateLimitHeaders } from './headers.ts'
import type { Counters, Limit, LimitName } from './limit.ts'
import type { Allowance, Allowances, localQuotas } from './quota.ts'
import { delayQueueFull, reserve, type throttle } from './throttle.ts'

/** A request that is being checked against the rate limits. */
export interface AdmissionContext {
  request: FastifyRequest
  reply: FastifyReply
  done: (error?: Error) => void
  account: Bucket
  /** The limit of this operation, in addition to the general limit. */
  own: Limit | null
  /** False for a call that is never delayed. */
  isPaced?: false
}

/**
 * Returns true if the response will be a 404 or 405, which takes precedence over a 429. OPTIONS requests have no route
 * either, but succeed.
 */
export const isNotFound = (request: FastifyRequest): boolean => isUnrouted(request) && request.method !== 'OPTIONS'

/**
 * Sets the rate headers for the tightest window. Returns the 429 if the window is exceeded, unless the response will be
 * a 404 or 405; otherwise null.
 */
export function limitProblem(
  { onLimited }: Pick<Parts, 'onLimited'>,
  { request, reply, account, own }: AdmissionContext,
  tight: Window | null,
  atMs: number,
): Problem | null {
  if (tight === null) return null
  setRateLimitHeaders(reply, tight, account.general, own, atMs)
  if (!isExceeded(tight) || isNotFound(request)) return null
  onLimited(tight.limit.name)
  return rateExceeded(tight, atMs)
}

/** Returns the 403 for a used-up quota. */
export function quotaProblem({ onLimited }: Pick<Parts, 'onLimited'>, exceeded: Allowance, month: Month): Problem {
  onLimited(`quota_${exceeded.name}`)
  return quotaExceeded(exceeded, month)
}

const none: Allowances = { requests: null, reports: null }

/**
 * Returns the quotas that a request uses: none if it has no route, or if it has no token and the route is not public.
 */
export function quotasOf({ request, account }: Pick<AdmissionContext, 'request' | 'account'>): Allowances {
  const { quotas } = account
  if (quotas === null || isUnrouted(request)) return none
  const { scope, limit } = routeConfig(request)
  if (request.caller === null && scope !== 'public') return none
  return limit === 'reports' ? quotas : quotas.ofRequests
}

/**
 * Refunds the quotas that an admitted request has used, and updates the headers. `what` is `all` if the request was
 * refused after all, or `report` to refund only the report quota.
 */
export function refund(
  parts: Parts,
  context: Pick<AdmissionContext, 'request' | 'account'>,
  reply: FastifyReply,
  what: 'all' | 'report' = 'all',
): void {
  const { counters, here, monthAt, now, onError } = parts
  const { requests, reports } = quotasOf(context)
  const month = monthAt(now())
  for (const one of what === 'all' ? [requests, reports] : [reports]) {
    // The refund is skipped if a new month has started.
    if (one === null || one.period !== month.name) continue
    if (counters.shared === null) here.giveBack(one)
    else {
      one.used--
      counters.shared.quotas.back(one.key, month.name).catch(onError)
    }
  }
  setQuotaHeaders(reply, requests, reports, month)
}

/**
 * Continues with the next policy, immediately or after a delay. If the delay queue is full, refunds the quotas and
 * refuses the request, unless the response will be a 404 or 405.
 */
export function proceed(parts: Parts, context: AdmissionContext): void {
  const { monotonic, delays } = parts
  const { request, reply, done } = context
  const { delayQueue } = context.account
  const atMs = monotonic()
  const reservation = delayQueue === null || context.isPaced === false ? 'free' : reserve(delayQueue, atMs)
  if (delayQueue === null || reservation === 'free') done()
  else if (reservation === 'full') {
    refund(parts, context, reply)
    const problem = isNotFound(request) ? undefined : delayQueueFull()
    if (problem !== undefined) parts.onLimited('pace')
    done(problem)
  } else {
    const leave = delays.wait(delayQueue, reservation.dueMs, () => {
      reply.raw.off('close', leave)
      const delayMs = Math.max(0, Math.round(monotonic() - atMs))
      reply.header('server-timing', `throttle;dur=${delayMs}`)
      parts.onDelayed(delayMs)
      done()
    })
    // If the client disconnects, its call leaves the queue.
    reply.raw.once('close', leave)
  }
}

/** Dependencies that the admission steps share. */
export interface Parts {
  rules: Record<LimitName, Limit | null>
  accounts: Accounts
  counters: Counters
  here: ReturnType<typeof localQuotas>
  delays: ReturnType<typeof throttle>
  monthAt: ReturnType<typeof calendar>
  now: () => number
  monotonic: () => number
  onError: (error: unknown) => void
  onLimited: (limit: string) => void
  onDelayed: (ms: number) => void
}
