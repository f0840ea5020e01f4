import type { FastifyReply } from 'fastify'
import type { Parts } from './parts.ts'
import { tellQuota } from './rate-headers.ts'
import { quotasOf, type Way } from './way.ts'

/**
 * Gives back what a request has used of its quotas that was admitted and came to nothing, and tells so: all of it where it
 * was not allowed, else its report.
 */
export function giveBack(
  parts: Parts,
  way: Pick<Way, 'request' | 'account'>,
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
