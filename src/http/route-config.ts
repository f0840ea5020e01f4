import type { FastifyContextConfig, FastifyRequest } from 'fastify'

const known = Symbol('facts')
const unrouted: FastifyContextConfig = Object.freeze({})

/**
 * Returns the `config` of the matched route, cached per request: Fastify rebuilds `routeOptions` on each access, and the
 * policies read it about ten times.
 */
export function routeConfig(request: FastifyRequest): FastifyContextConfig {
  const cached = request as { [known]?: FastifyContextConfig }
  cached[known] ??= hasRoute(request) ? request.routeOptions.config : unrouted
  return cached[known]
}

/** Returns true if no route matches the path. */
export const isUnrouted = (request: FastifyRequest): boolean => routeConfig(request) === unrouted

/** Returns whether a route matches. The router also matches empty parameters, but no resource has an empty id. */
function hasRoute({ is404, params }: FastifyRequest): boolean {
  if (is404) return false
  const values = params as Record<string, string>
  for (const name in values) if (values[name] === '' && name !== '*') return false
  return true
}
