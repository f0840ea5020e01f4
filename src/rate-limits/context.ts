import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Problem } from '../http/problems/problem.ts'
import { isUnrouted, routeConfig } from '../http/route-config.ts'
import type { Accounts, Bucket } from './account.ts'
import { isExceeded, type Window } from './fixed-window.ts'
import { rateExceeded, setQuotaHeaders, setRateLimitHeaders } from './headers.ts'
import type { Counters, Limit, LimitName } from './limit.ts'
import type { Allowances, calendar, localQuotas } from './quota.ts'
import { delayQueueFull, reserve, type throttle } from './throttle.ts'

/** A request passing through the rate limits. */
export interface AdmissionContext {
  request: FastifyRequest
  reply: FastifyReply
  done: (error?: Error) => void
  account: Bucket
  /** The limit of this operation, besides the general one. */
  own: Limit | null
}

/**
 * True if the response will be a 404 or 405, which takes precedence over 429. OPTIONS has no route either, but gets a
 * response.
 */
export const isNotFound = (request: FastifyRequest): boolean => isUnrouted(request) && request.method !== 'OPTIONS'

/** First step: sets the rate headers and returns the 429, if any. A request without a route continues to its 404 or 405. */
export function limitProblem(
  { request, reply, account, own }: AdmissionContext,
  tight: Window | null,
  atMs: number,
): Problem | null {
  if (tight === null) return null
  setRateLimitHeaders(reply, tight, account.general, own, atMs)
  return !isExceeded(tight) || isNotFound(request) ? null : rateExceeded(tight, atMs)
}

const none: Allowances = { requests: null, reports: null }

/** The quotas that a request uses: none if it will be refused for lack of a token, or has no route. */
export function quotasOf({ request, account }: Pick<AdmissionContext, 'request' | 'account'>): Allowances {
  const { quotas } = account
  if (quotas === null || isUnrouted(request)) return none
  const { scope, limit } = routeConfig(request)
  if (request.caller === null && scope !== 'public') return none
  return limit === 'reports' ? quotas : quotas.ofRequests
}

/**
 * Refunds the quota of an admitted request that had no effect, and updates the headers: all of it if the request was
 * refused, otherwise only its report.
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
    // In a new month there is nothing to refund.
    if (one === null || one.period !== month.name) continue
    if (counters.shared === null) here.use(one, -1)
    else {
      one.used--
      counters.shared.quotas.back(one.key, month.name).catch(onError)
    }
  }
  setQuotaHeaders(reply, requests, reports, month)
}

/** Last step: continues to the next policy, at once or after a delay. A call that finds the queue full is refunded. */
export function proceed(parts: Parts, context: AdmissionContext): void {
  const { monotonic, delays } = parts
  const { request, reply, done } = context
  const { delayQueue } = context.account
  const atMs = monotonic()
  const reservation = delayQueue === null ? 'free' : reserve(delayQueue, atMs)
  if (delayQueue === null || reservation === 'free') done()
  else if (reservation === 'full') {
    refund(parts, context, reply)
    done(isNotFound(request) ? undefined : delayQueueFull())
  } else {
    const leave = delays.wait(delayQueue, reservation.dueMs, () => {
      reply.raw.off('close', leave)
      reply.header('server-timing', `throttle;dur=${Math.max(0, Math.round(monotonic() - atMs))}`)
      done()
    })
    // A client that disconnects leaves the queue.
    reply.raw.once('close', leave)
  }
}

/** Dependencies shared by the admission steps. */
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
}
