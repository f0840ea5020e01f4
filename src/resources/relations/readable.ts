import type { FastifyRequest } from 'fastify'
import { requireScope } from '../../http/policies/authorize.ts'
import type { Declaration } from '../declaration.ts'

/**
 * Throws 401 or 403 unless the caller may read a collection that a route reads in addition to its own. A public collection
 * needs no check: if the service requires a token to read it, the route has already required one.
 */
export function requireReadable({ readScope, name }: Declaration, request: FastifyRequest): void {
  if (readScope !== null) requireScope(request, readScope, `Reading ${name.replaceAll('-', ' ')}`)
}
