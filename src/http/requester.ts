import type { FastifyReply, FastifyRequest } from 'fastify'
import { networkOf } from './headers/client-address.ts'
import type { Caller } from './policies/authenticate.ts'

/** For whom something is done that is bounded for each account. */
export interface Requester {
  /** The same for all requests of a client and subject; without a token, for all of a network. */
  account: string
  /** Aborted when the connection is closed before the answer was sent. */
  signal: AbortSignal
}

/** The account of a client and subject. */
export const accountOf = ({ clientId, subject }: Pick<Caller, 'clientId' | 'subject'>): string =>
  `client:${JSON.stringify([clientId, subject])}`

/** Who sent a request, as work that is bounded for each account knows them. */
export function requesterOf({ caller, ip }: FastifyRequest, { raw }: FastifyReply): Requester {
  const abort = new AbortController()
  raw.once('close', () => abort.abort())
  const known = caller && 'caller' in caller ? caller.caller : undefined
  const account = known ? accountOf(known) : `net:${networkOf(ip)}`
  return { account, signal: abort.signal }
}
