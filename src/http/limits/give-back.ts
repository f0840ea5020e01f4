import type { FastifyReply } from 'fastify'
import type { Parts } from './limiter.ts'
import { tellQuota } from './rate-headers.ts'
import { quotasOf, type Way } from './way.ts'

/** Gives back what a request has used of its quotas that was admitted and then not allowed, and tells so. */
export function giveBack(parts: Parts, way: Pick<Way, 'request' | 'account'>, reply: FastifyReply): void {
  const { counters, here, monthAt, now, onError } = parts
  const { requests, reports } = quotasOf(way)
  const month = monthAt(now())
  for (const one of [requests, reports]) {
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
