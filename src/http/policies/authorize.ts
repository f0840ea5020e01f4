import type { FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { Problem, type ProblemCode } from '../problems/problem.ts'
import { isUnrouted, routeConfig } from '../route-config.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Who may call the route: a scope name, `any` for callers with a valid token, `public` for everyone, or `own` if the
     * route does its own authorization.
     */
    scope?: string
    /** An alternative scope that also grants access to the route. */
    orScope?: string
  }
}

export interface AuthorizeOptions {
  /** Called for each request that this policy rejects, before the response is sent. */
  onRefused?: (request: FastifyRequest, reply: FastifyReply) => void
}

const realm = 'Bearer realm="plinth"'

/**
 * Responds with 401 or 403 and `WWW-Authenticate` unless the caller has the scope that the route requires (RFC 6750 §3).
 * Rejects invalid tokens on public paths as well, so that the client notices. Registering a route without a scope throws, so
 * startup fails.
 */
export const authorize = fastifyPlugin<AuthorizeOptions>(
  async (app, { onRefused }) => {
    app.addHook('onRoute', ({ url, config }) => {
      if (config?.scope === undefined) throw new Error(`The route ${url} declares no scope`)
    })
    app.addHook('onRequest', (request, reply, done) => {
      const problem = checkScope(request)
      if (problem === undefined) return done()
      onRefused?.(request, reply)
      done(problem)
    })
  },
  { name: 'authorize', dependencies: ['authenticate'] },
)

function checkScope(request: FastifyRequest): Problem | undefined {
  if (isUnrouted(request)) return
  const { caller, url } = request
  const { scope, orScope } = routeConfig(request)
  if (scope === 'own') return
  if (caller === null) return scope === 'public' ? undefined : unauthorized('AUTH_REQUIRED')
  if ('refused' in caller) return unauthorized(caller.refused)
  if (hasTokenInQuery(url)) return tokenSentTwice()
  const { scopes } = caller.caller
  if (scope === 'public' || scope === 'any' || scopes.has(scope as string)) return
  if (orScope !== undefined && scopes.has(orScope)) return
  return lacksScope(scope as string)
}

/** Rejects an invalid token on a route that does its own authorization, even if the route requires no token. */
export function rejectInvalidToken(
  { caller }: FastifyRequest,
  _reply: FastifyReply,
  done: (error?: Error) => void,
): void {
  done(caller && 'refused' in caller ? unauthorized(caller.refused) : undefined)
}

/**
 * Returns whether the query may contain a token. Such a token is never used; together with a token in the header, it makes
 * the request ambiguous (RFC 6750 §2, §3.1).
 */
export const hasTokenInQuery = (url: string) => url.includes('access_token=')

const tokenSentTwice = () =>
  new Problem('INVALID_INPUT', 'Send the access token only in the Authorization header', {
    headers: { 'www-authenticate': `${realm}, error="invalid_request"` },
  })

/** Returns the 403 for a token without a required scope (RFC 6750 §3.1); `what` is the subject of the error message. */
export function lacksScope(scope: string, what = 'This'): Problem {
  return new Problem('ACCESS_DENIED', `${what} needs an access token with the scope ${scope}`, {
    headers: { 'www-authenticate': `${realm}, error="insufficient_scope", scope="${scope}"` },
  })
}

/**
 * Throws 401 or 403 unless the caller has a scope that only some requests to the route need. `what` is the subject of
 * the error message.
 */
export function requireScope({ caller }: FastifyRequest, scope: string, what: string): void {
  if (caller === null || 'refused' in caller) throw unauthorized('AUTH_REQUIRED')
  if (!caller.caller.scopes.has(scope)) throw lacksScope(scope, what)
}

const details: Partial<Record<ProblemCode, string>> = {
  AUTH_REQUIRED: 'Send an access token in the Authorization header: Bearer <ACCESS_TOKEN>',
  AUTH_TOKEN_EXPIRED: 'Get a new access token from the token endpoint',
  AUTH_TOKEN_INVALID: 'The access token was not issued for this service, was altered or was revoked',
}

function unauthorized(code: 'AUTH_REQUIRED' | 'AUTH_TOKEN_EXPIRED' | 'AUTH_TOKEN_INVALID'): Problem {
  const error = code === 'AUTH_REQUIRED' ? '' : ', error="invalid_token"'
  return new Problem(code, details[code] as string, { headers: { 'www-authenticate': `${realm}${error}` } })
}
