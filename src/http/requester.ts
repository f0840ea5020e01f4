import type { FastifyReply, FastifyRequest } from 'fastify'
import { networkOf } from './headers/client-address.ts'
import type { Caller } from './policies/authenticate.ts'

/** On whose behalf work runs that is limited per account. */
export interface Requester {
  /** The same for all requests of a client and subject; without a token, for all of a network. */
  account: string
  /** Aborted when the connection closes before the response was sent. */
  signal: AbortSignal
}

/** The account key of a client and subject. */
export const accountOf = ({ clientId, subject }: Pick<Caller, 'clientId' | 'subject'>): string =>
  `client:${JSON.stringify([clientId, subject])}`

/** The requester of a request. */
export function requesterOf({ caller, ip }: FastifyRequest, { raw }: FastifyReply): Requester {
  const abort = new AbortController()
  raw.once('close', () => abort.abort())
  const known = caller && 'caller' in caller ? caller.caller : undefined
  const account = known ? accountOf(known) : `net:${networkOf(ip)}`
  return { account, signal: abort.signal }
}
