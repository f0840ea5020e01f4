import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { type Preferences, parsePrefer } from '../headers/prefer.ts'
import { rejectUnknownMembers } from '../strict-handling.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * `return=minimal` may omit the representation from the response to this write: the client can read the resource at its
     * URL.
     */
    minimal?: boolean
    /** The handler waits for a change, up to `request.preferences.wait` seconds. */
    waits?: boolean
  }
  interface FastifyRequest {
    /** Set by `prefer`: the parsed Prefer header, or null if there is none. */
    preferences: Preferences | null
  }
}

/**
 * Prefer (RFC 7240): parses the header, rejects unknown members under `handling=strict`, and omits the representation under
 * `return=minimal`: 204 for a change, otherwise an empty 201 or 202, with all other headers unchanged. Handlers implement
 * `wait` and `count`. `Preference-Applied` lists the honored preferences.
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

/** The authorization server follows its own specifications and ignores Prefer. */
export const honorsPrefer = ({ config }: Pick<RouteOptions, 'config'>): boolean => config?.scope !== 'own'

/** Adds an honored preference to `Preference-Applied` (RFC 7240 §3). */
export function applied(reply: FastifyReply, preference: string): void {
  const others = reply.getHeader('preference-applied')
  reply.header('preference-applied', others === undefined ? preference : `${others}, ${preference}`)
}

/** Runs after `conditional`, which derives validators from the omitted content; errors are never omitted. */
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
