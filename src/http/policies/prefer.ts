import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { type Preferences, parsePrefer } from '../headers/prefer.ts'
import { rejectUnknownMembers } from '../strict-handling.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The answer of this write may be left out on request: the client can read the resource where it is. */
    minimal?: boolean
    /** The handler waits for news, up to `request.preferences.wait` seconds. */
    waits?: boolean
  }
  interface FastifyRequest {
    /** Set by `prefer`: what the Prefer header states, or null without one. */
    preferences: Preferences | null
  }
}

/**
 * Prefer (RFC 7240): reads the header, refuses what would be ignored under `handling=strict`, and leaves out the
 * representation under `return=minimal`: 204 for a change, an empty 201 or 202 otherwise, with all other headers.
 * Handlers see to `wait` and `count`. What was honoured is named in `Preference-Applied`.
 */
export const prefer = fastifyPlugin(
  async (app) => {
    app.decorateRequest('preferences', null)
    app.addHook('onRoute', (route) => {
      if (route.config?.minimal) route.preSerialization = [...[route.preSerialization ?? []].flat(), leaveOut]
    })
    app.addHook('preValidation', (request, reply, done) => {
      const { prefer } = request.headers
      if (prefer === undefined || !heedsPrefer(request.routeOptions)) return done()
      const preferences = parsePrefer(String(prefer))
      request.preferences = preferences
      if (preferences.handling) applied(reply, `handling=${preferences.handling}`)
      if (preferences.handling === 'strict') rejectUnknownMembers(request)
      done()
    })
  },
  { name: 'prefer', dependencies: ['bodies', 'conditional'] },
)

/** The authorization server has rules of its own for what it reads. */
export const heedsPrefer = ({ config }: Pick<RouteOptions, 'config'>): boolean => config?.scope !== 'own'

/** Names a preference that was honoured (RFC 7240 §3). */
export function applied(reply: FastifyReply, preference: string): void {
  const others = reply.getHeader('preference-applied')
  reply.header('preference-applied', others === undefined ? preference : `${others}, ${preference}`)
}

/** Runs after `conditional`, which makes the validators of what is left out; refusals are never left out. */
function leaveOut(
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
