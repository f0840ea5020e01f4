import type { FastifyContextConfig, FastifyRequest } from 'fastify'

const known = Symbol('facts')

/** What the route says of itself in `config`. The framework makes `routeOptions` anew each time; this is asked ten times. */
export function factsOf(request: FastifyRequest): FastifyContextConfig {
  const asked = request as { [known]?: FastifyContextConfig }
  asked[known] ??= request.routeOptions.config
  return asked[known]
}
