import type { FastifyReply, FastifyRequest } from 'fastify'
import { networkOf } from './headers/client-address.ts'
import type { Caller } from './policies/authenticate.ts'

/** The account on whose behalf work with per-account limits runs. */
export interface Requester {
  /** The same for all requests with a given client and subject; without a token, for all requests from a network. */
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
