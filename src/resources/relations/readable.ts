import type { FastifyRequest } from 'fastify'
import { requireScope } from '../../http/policies/authorize.ts'
import type { Declaration } from '../declaration.ts'

/**
 * Throws 401 or 403 unless the caller may read a collection other than the route's own. A public collection needs no
 * check: if the service requires a token for public reads, the route has already required one.
 */
export function requireReadable({ readScope, name }: Declaration, request: FastifyRequest): void {
  if (readScope !== null) requireScope(request, readScope, `Reading ${name.replaceAll('-', ' ')}`)
}
