import type { FastifyContextConfig, FastifyRequest } from 'fastify'

const known = Symbol('facts')
const nowhere: FastifyContextConfig = Object.freeze({})

/** What the route says of itself in `config`. The framework makes `routeOptions` anew each time; this is asked ten times. */
export function routeConfig(request: FastifyRequest): FastifyContextConfig {
  const asked = request as { [known]?: FastifyContextConfig }
  asked[known] ??= hasRoute(request) ? request.routeOptions.config : nowhere
  return asked[known]
}

/** True when no route is at the path. */
export const isUnrouted = (request: FastifyRequest): boolean => routeConfig(request) === nowhere

/** The router finds a route for an empty parameter too, and what has no name is nowhere. */
function hasRoute({ is404, params }: FastifyRequest): boolean {
  if (is404) return false
  const values = params as Record<string, string>
  for (const name in values) if (values[name] === '' && name !== '*') return false
  return true
}
