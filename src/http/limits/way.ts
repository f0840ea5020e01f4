import type { FastifyReply, FastifyRequest } from 'fastify'
import { factsOf, isNowhere } from '../facts.ts'
import type { Problem } from '../problem.ts'
import type { Account } from './account.ts'
import type { Limit } from './limit.ts'
import type { Parts } from './limiter.ts'
import type { Allowances } from './quota.ts'
import { rateExceeded, tellRate } from './rate-headers.ts'
import { lineIsFull, placeIn } from './throttle.ts'
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

/** First step: headers and refusal of the windows. What nothing is found at goes on to its 404 or 405. */
export function refusalOf({ request, reply, account, own }: Way, tight: Window | null, atMs: number): Problem | null {
  if (tight === null) return null
  tellRate(reply, tight, account.general, own, atMs)
  return isNowhere(request) || !isExceeded(tight) ? null : rateExceeded(tight, atMs)
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

/** Last step: on to the next policy, now or in turn; a call that finds no place gives back what it has used. */
export function goOn({ monotonic, lines }: Parts, way: Way, count: (calls: -1) => void): void {
  const { request, reply, done } = way
  const { line } = way.account
  const atMs = monotonic()
  const place = line === null ? 'free' : placeIn(line, atMs)
  if (line === null || place === 'free') done()
  else if (place === 'full') {
    count(-1)
    done(isNowhere(request) ? undefined : lineIsFull())
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
