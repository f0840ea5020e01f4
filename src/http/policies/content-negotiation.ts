import type { FastifyRequest, RouteOptions } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { accepts } from '../headers/accept.ts'
import { negotiateCoding } from '../headers/content-encoding.ts'
import { Problem } from '../problems/problem.ts'
import { routeConfig } from '../route-config.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Media types of the responses, without parameters; empty for a route that ignores Accept. By default, the media
     * types of the declared success responses, or JSON if a response specifies no type.
     */
    produces?: readonly string[]
    /** Whether the route can also send changes as an event stream. */
    streams?: boolean
  }
}

const json = 'application/json'

/**
 * Responds with 406, before the handler runs, if the client accepts none of the route's responses. The reason can be
 * Accept or, for reads, an Accept-Encoding that excludes uncompressed content and every supported coding (RFC 9110
 * §12.5.1, §12.5.3). Error responses ignore both headers. Responds with 417 to any Expect header other than 100-continue
 * (§10.1.1).
 */
export const contentNegotiation = fastifyPlugin(
  async (app) => {
    app.addHook('onRoute', (route) => {
      const produces = route.config?.produces ?? declaredTypes(route)
      // Nearly all routes send only JSON. `produces` stays unset for them, so that the check is fast.
      if (produces.join() !== json) route.config = { ...route.config, produces }
    })
    app.addHook('onRequest', (request, _reply, done) => {
      const { headers } = request
      if (headers.expect !== undefined && isUnmet(headers.expect, request.raw.httpVersion)) {
        return done(new Problem('EXPECTATION_FAILED', 'The only supported expectation is 100-continue'))
      }
      const encoding = headers['accept-encoding']
      if (encoding?.includes('=0') && refusesPlain.test(encoding) && lacksCoding(request, encoding)) {
        return done(
          new Problem('NOT_ACCEPTABLE', 'The response is not available in any coding that Accept-Encoding allows'),
        )
      }
      const { accept } = headers
      if (accept === undefined || accept === '*/*') return done()
      const config = routeConfig(request)
      if (config.scope === 'own' || (accept === json && config.produces === undefined)) return done()
      done(checkAccept(accept, config.produces))
    })
  },
  { name: 'contentNegotiation', dependencies: ['authorize', 'methods'] },
)

/** Returns whether an Expect header must be rejected. HTTP/1.0 does not define Expect, so it is ignored there. */
const isUnmet = (expectation: string, version: string) =>
  version !== '1.0' && !/(^|\W)100-continue(\W|$)/i.test(expectation)

function checkAccept(accept: string, produces: readonly string[] = [json]): Problem | undefined {
  if (produces.length === 0 || produces.some((type) => accepts(accept, type))) return
  return new Problem('NOT_ACCEPTABLE', `The response is available only as ${produces.join(' or ')}`)
}

/**
 * Matches an Accept-Encoding that may exclude uncompressed content. Few clients send one, so the header is rarely
 * parsed.
 */
const refusesPlain = /(identity|\*)\s*;\s*q=0/i

/**
 * Returns true if no coding is acceptable. Uncacheable responses are never compressed, so they can only be sent
 * uncompressed.
 */
function lacksCoding({ method, routeOptions: { config } }: FastifyRequest, encoding: string): boolean {
  if ((method !== 'GET' && method !== 'HEAD') || config.scope === 'own' || config.produces?.length === 0) return false
  const { coding, identity } = negotiateCoding(encoding)
  return !identity && (coding === null || (config.cache ?? 'none') === 'none')
}

type DeclaredResponses = Record<string, { content?: Record<string, unknown> }>

/**
 * Returns the media types of the declared success responses. Responses without content have none: a 204, or the
 * response to a DELETE that declares no success response.
 */
function declaredTypes({ schema, method }: RouteOptions): string[] {
  const successes = Object.entries((schema?.response ?? {}) as DeclaredResponses).filter(([status]) =>
    status.startsWith('2'),
  )
  if (successes.length === 0) return [method].flat().includes('DELETE') ? [] : [json]
  if (successes.every(([status]) => status === '204')) return []
  const types = successes.flatMap(([, { content }]) => (content ? Object.keys(content) : [json]))
  return [...new Set(types.map((type) => type.split(';', 1)[0] as string))]
}
