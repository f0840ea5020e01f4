import type { FastifyRequest } from 'fastify'

/** Who sent a request, as the audit log names them; nobody where no token was accepted. */
export function actorOf({ caller, id, ip }: FastifyRequest) {
  const known = caller && 'caller' in caller ? caller.caller : undefined
  return { clientId: known?.clientId ?? null, subject: known?.subject ?? null, address: ip, requestId: id }
}
