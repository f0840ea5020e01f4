import type { FastifyReply, FastifyRequest } from 'fastify'
import { factsOf, isNowhere } from '../facts.ts'
import type { Problem } from '../problem.ts'
import type { Account } from './account.ts'
import type { Limit } from './limit.ts'
import type { Allowances } from './quota.ts'
import { rateExceeded, tellRate } from './rate-headers.ts'
import { isExceeded, type Window } from './windows.ts'

/** One request on its way past the limits. */
export interface Way {
  request: FastifyRequest
  reply: FastifyReply
  done: (error?: Error) => void
  account: Account
  /** The limit of the operation itself. */
  own: Limit | null
}

/** Where nothing is found, which is said before all else; OPTIONS has no route either, and an answer all the same. */
export const isNotFound = (request: FastifyRequest): boolean => isNowhere(request) && request.method !== 'OPTIONS'

/** First step: headers and refusal of the windows. What nothing is found at goes on to its 404 or 405. */
export function refusalOf({ request, reply, account, own }: Way, tight: Window | null, atMs: number): Problem | null {
  if (tight === null) return null
  tellRate(reply, tight, account.general, own, atMs)
  return !isExceeded(tight) || isNotFound(request) ? null : rateExceeded(tight, atMs)
}

const none: Allowances = { requests: null, reports: null }

/** The quotas that a request uses: none where it is refused for want of a token, or where nothing is found. */
export function quotasOf({ request, account }: Pick<Way, 'request' | 'account'>): Allowances {
  const { quotas } = account
  if (quotas === null || isNowhere(request)) return none
  const { scope, limit } = factsOf(request)
  if (request.caller === null && scope !== 'public') return none
  return limit === 'reports' ? quotas : quotas.ofRequests
}
