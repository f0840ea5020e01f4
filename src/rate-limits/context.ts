import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Problem } from '../http/problems/problem.ts'
import { isUnrouted, routeConfig } from '../http/route-config.ts'
import type { Bucket } from './account.ts'
import { isExceeded, type Window } from './fixed-window.ts'
import { rateExceeded, setRateLimitHeaders, tellQuota } from './headers.ts'
import type { Limit } from './limit.ts'
import type { Parts } from './parts.ts'
import type { Allowances } from './quota.ts'
import { lineIsFull, reserve } from './throttle.ts'

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
 * True when the response will be 404 or 405, which takes precedence over 429. OPTIONS has no route either, but is answered.
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

/** The quotas a request uses: none when it will be refused for lack of a token, or has no route. */
export function quotasOf({ request, account }: Pick<AdmissionContext, 'request' | 'account'>): Allowances {
  const { quotas } = account
  if (quotas === null || isUnrouted(request)) return none
  const { scope, limit } = routeConfig(request)
  if (request.caller === null && scope !== 'public') return none
  return limit === 'reports' ? quotas : quotas.ofRequests
}

/**
 * Gives quota back for an admitted request that had no effect, and updates the headers: everything when it was not allowed,
 * otherwise only its report.
 */
export function giveBack(
  parts: Parts,
  way: Pick<AdmissionContext, 'request' | 'account'>,
  reply: FastifyReply,
  what: 'all' | 'report' = 'all',
): void {
  const { counters, here, monthAt, now, onError } = parts
  const { requests, reports } = quotasOf(way)
  const month = monthAt(now())
  for (const one of what === 'all' ? [requests, reports] : [reports]) {
    // In a new month there is nothing to give back.
    if (one === null || one.period !== month.name) continue
    if (counters.shared === null) here.use(one, -1)
    else {
      one.used--
      counters.shared.quotas.back(one.key, month.name).catch(onError)
    }
  }
  tellQuota(reply, requests, reports, month)
}

/**
 * Last step: continues to the next policy, at once or after a delay. A call that finds the queue full gives its quota back.
 */
export function proceed(parts: Parts, way: AdmissionContext): void {
  const { monotonic, lines } = parts
  const { request, reply, done } = way
  const { line } = way.account
  const atMs = monotonic()
  const place = line === null ? 'free' : reserve(line, atMs)
  if (line === null || place === 'free') done()
  else if (place === 'full') {
    giveBack(parts, way, reply)
    done(isNotFound(request) ? undefined : lineIsFull())
  } else {
    const leave = lines.wait(line, place.dueMs, () => {
      reply.raw.off('close', leave)
      reply.header('server-timing', `throttle;dur=${Math.max(0, Math.round(monotonic() - atMs))}`)
      done()
    })
    // A client that disconnects leaves the queue.
    reply.raw.once('close', leave)
  }
}
