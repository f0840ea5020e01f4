import type { FastifyRequest } from 'fastify'
import { requireScope } from '../../http/policies/authorize.ts'
import type { Declaration } from '../declaration.ts'

/**
 * Throws 401 or 403 unless the caller may read a collection to which a route leads besides its own. A collection that
 * everybody may read needs nothing: where reading needs a token, the route has required one.
 */
export function requireReadable({ readScope, name }: Declaration, request: FastifyRequest): void {
  if (readScope !== null) requireScope(request, readScope, `Reading ${name.replaceAll('-', ' ')}`)
}
