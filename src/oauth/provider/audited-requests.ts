import type { FastifyRequest } from 'fastify'
import type { Audit } from '../../audit/buffer.ts'
import { auditActor } from '../../http/policies/authenticate.ts'
import type { Plaintext } from '../../http/policies/https.ts'
import type { Problem } from '../../http/problems/problem.ts'

/** Puts a credential that travelled in the clear into the audit log. */
export const plaintextTold =
  (audit: Pick<Audit, 'tally'>) =>
  ({ address, header }: Plaintext): void =>
    audit.tally({ event: 'credential.plaintext', address, details: { header } })

/** What of a request that was refused goes into the audit log. */
export function refusals(audit: Pick<Audit, 'tally'> | undefined) {
  const onDenied = (request: FastifyRequest, { code }: Problem) => {
    const target = `${request.method} ${request.routeOptions.url}`
    audit?.tally({ ...auditActor(request), event: 'access.denied', target, details: { errorCode: code } })
  }
  return { onDenied, onPlaintext: audit && plaintextTold(audit) }
}
