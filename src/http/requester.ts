import type { FastifyReply, FastifyRequest } from 'fastify'
import { networkOf } from './headers/client-address.ts'
import type { Caller } from './policies/authenticate.ts'

/** The account for which a request does work that is limited per account. */
export interface Requester {
  /**
   * Identical for all requests with the same client and subject or, without a token, for all requests from a network.
   */
  account: string
  /** Aborted if the connection closes before the response is sent. */
  signal: AbortSignal
}

/** Returns the account key of a client and subject. */
export const accountOf = ({ clientId, subject }: Pick<Caller, 'clientId' | 'subject'>): string =>
  `client:${JSON.stringify([clientId, subject])}`

export function requesterOf({ caller, ip }: FastifyRequest, { raw }: FastifyReply): Requester {
  const abort = new AbortController()
  raw.once('close', () => abort.abort())
  const known = caller && 'caller' in caller ? caller.caller : undefined
  const account = known ? accountOf(known) : `net:${networkOf(ip)}`
  return { account, signal: abort.signal }
}
