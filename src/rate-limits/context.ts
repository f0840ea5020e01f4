import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Problem } from '../http/problems/problem.ts'
import { isUnrouted, routeConfig } from '../http/route-config.ts'
import type { Account } from './account.ts'
import { isExceeded, type Window } from './fixed-window.ts'
import { rateExceeded, tellQuota, tellRate } from './headers.ts'
import type { Limit } from './limit.ts'
import type { Parts } from './parts.ts'
import type { Allowances } from './quota.ts'
import { lineIsFull, reserve } from './throttle.ts'

/** One request on its way past the limits. */
export interface AdmissionContext {
  request: FastifyRequest
  reply: FastifyReply
  done: (error?: Error) => void
  account: Account
  /** The limit of the operation itself. */
  own: Limit | null
}

/** Where nothing is found, which is said before all else; OPTIONS has no route either, and an answer all the same. */
export const isNotFound = (request: FastifyRequest): boolean => isUnrouted(request) && request.method !== 'OPTIONS'

/** First step: headers and refusal of the windows. What nothing is found at goes on to its 404 or 405. */
export function refusalOf(
  { request, reply, account, own }: AdmissionContext,
  tight: Window | null,
  atMs: number,
): Problem | null {
  if (tight === null) return null
  tellRate(reply, tight, account.general, own, atMs)
  return !isExceeded(tight) || isNotFound(request) ? null : rateExceeded(tight, atMs)
}

const none: Allowances = { requests: null, reports: null }

/** The quotas that a request uses: none where it is refused for want of a token, or where nothing is found. */
export function quotasOf({ request, account }: Pick<AdmissionContext, 'request' | 'account'>): Allowances {
  const { quotas } = account
  if (quotas === null || isUnrouted(request)) return none
  const { scope, limit } = routeConfig(request)
  if (request.caller === null && scope !== 'public') return none
  return limit === 'reports' ? quotas : quotas.ofRequests
}

/**
 * Gives back what a request has used of its quotas that was admitted and came to nothing, and tells so: all of it where it
 * was not allowed, else its report.
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
    // A month that has begun since does not know of it.
    if (one === null || one.period !== month.name) continue
    if (counters.shared === null) here.use(one, -1)
    else {
      one.used--
      counters.shared.quotas.back(one.key, month.name).catch(onError)
    }
  }
  tellQuota(reply, requests, reports, month)
}

/** Last step: on to the next policy, now or in turn; a call that finds no place gives back what it has used. */
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
    // Whoever has hung up makes room for those behind.
    reply.raw.once('close', leave)
  }
}
