import type { FastifyRequest } from 'fastify'
import type { Audit } from '../../audit/buffer.ts'
import { auditActor } from '../../http/policies/authenticate.ts'
import type { Plaintext } from '../../http/policies/https.ts'
import type { Problem } from '../../http/problems/problem.ts'

/** Audits credentials sent over plain HTTP. */
export const auditPlaintextCredential =
  (audit: Pick<Audit, 'tally'>) =>
  ({ address, header }: Plaintext): void =>
    audit.tally({ event: 'credential.plaintext', address, details: { header } })

/** Audits rejected requests. */
export function refusals(audit: Pick<Audit, 'tally'> | undefined) {
  const onDenied = (request: FastifyRequest, { code }: Problem) => {
    const target = `${request.method} ${request.routeOptions.url}`
    audit?.tally({ ...auditActor(request), event: 'access.denied', target, details: { errorCode: code } })
  }
  return { onDenied, onPlaintext: audit && auditPlaintextCredential(audit) }
}
