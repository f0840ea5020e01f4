import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { type Preferences, parsePrefer } from '../headers/prefer.ts'
import { rejectUnknownMembers } from '../strict-handling.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Whether `return=minimal` may omit the representation from the response to this write, because the client can read the
     * resource at its URL.
     */
    minimal?: boolean
    /** Whether the handler may wait for a change, for up to `request.preferences.wait` seconds. */
    waits?: boolean
  }
  interface FastifyRequest {
    /** Set by `prefer`: the parsed Prefer header; null if the request has none or the route ignores it. */
    preferences: Preferences | null
  }
}

/**
 * Implements Prefer (RFC 7240): parses the header, rejects unknown members and parameters under `handling=strict`, and
 * omits the representation under `return=minimal`: an update returns 204, and a creation returns an empty 201 or 202.
 * Handlers implement `wait` and `count`. `Preference-Applied` lists the preferences that were honored.
 */
export const prefer = fastifyPlugin(
  async (app) => {
    app.decorateRequest('preferences', null)
    app.addHook('onRoute', (route) => {
      if (route.config?.minimal) route.preSerialization = [...[route.preSerialization ?? []].flat(), omitRepresentation]
    })
    app.addHook('preValidation', (request, reply, done) => {
      const { prefer } = request.headers
      if (prefer === undefined || !honorsPrefer(request.routeOptions)) return done()
      const preferences = parsePrefer(String(prefer))
      request.preferences = preferences
      if (preferences.handling) applied(reply, `handling=${preferences.handling}`)
      if (preferences.handling === 'strict') rejectUnknownMembers(request)
      done()
    })
  },
  { name: 'prefer', dependencies: ['bodyParsing', 'conditional'] },
)

/** Returns whether a route honors Prefer. The authorization server follows other specifications and ignores it. */
export const honorsPrefer = ({ config }: Pick<RouteOptions, 'config'>): boolean => config?.scope !== 'own'

/** Adds an honored preference to `Preference-Applied` (RFC 7240 §3). */
export function applied(reply: FastifyReply, preference: string): void {
  const others = reply.getHeader('preference-applied')
  reply.header('preference-applied', others === undefined ? preference : `${others}, ${preference}`)
}

/**
 * Removes the representation from a successful response if the client prefers `return=minimal`. Runs after
 * `conditional`, which derives validators from the content.
 */
function omitRepresentation(
  request: FastifyRequest,
  reply: FastifyReply,
  payload: unknown,
  done: (error: Error | null, payload: unknown) => void,
): void {
  const preferred = reply.statusCode < 300 ? request.preferences?.return : undefined
  if (preferred !== undefined) applied(reply, `return=${preferred}`)
  if (preferred === 'minimal') {
    if (reply.statusCode === 200) reply.code(204)
    reply.removeHeader('content-type').serializer(() => '')
  }
  done(null, payload)
}
