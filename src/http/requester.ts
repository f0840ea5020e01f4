import type { FastifyReply, FastifyRequest } from 'fastify'
import { networkOf } from './headers/client-address.ts'
import type { Caller } from './policies/authenticate.ts'

/** The sender of a request, for work that is limited per account. */
export interface Requester {
  /** Identifies the client and subject or, for an anonymous request, the network. */
  account: string
  /** Aborted once the response has been sent or its connection has closed. */
  signal: AbortSignal
}

/** Returns the account key of a client and subject. */
export const accountOf = ({ clientId, subject }: Pick<Caller, 'clientId' | 'subject'>): string =>
  `client:${JSON.stringify([clientId, subject])}`

/** Returns who sent a request: the caller or, without a token, the network. */
export function requesterOf({ caller, ip }: FastifyRequest, { raw }: FastifyReply): Requester {
  const abort = new AbortController()
  raw.once('close', () => abort.abort())
  const known = caller && 'caller' in caller ? caller.caller : undefined
  const account = known ? accountOf(known) : `net:${networkOf(ip)}`
  return { account, signal: abort.signal }
}
