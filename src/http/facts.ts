import type { FastifyContextConfig, FastifyRequest } from 'fastify'

const known = Symbol('facts')

/** What the route says of itself in `config`. The framework makes `routeOptions` anew each time; this is asked ten times. */
export function factsOf(request: FastifyRequest): FastifyContextConfig {
  const asked = request as { [known]?: FastifyContextConfig }
  asked[known] ??= request.routeOptions.config
  return asked[known]
}

/** True when no route is at the path. The router finds one for an empty parameter too, and what has no name is nowhere. */
export function isNowhere({ is404, params }: FastifyRequest): boolean {
  if (is404) return true
  const values = params as Record<string, string>
  for (const name in values) if (values[name] === '' && name !== '*') return true
  return false
}
