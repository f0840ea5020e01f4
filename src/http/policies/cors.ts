import type { FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { apiHeaderNames } from '../headers/header-names.ts'
import { addVary } from '../headers/vary.ts'

export interface CorsOptions {
  /** The allowed origins, exactly as browsers send them. If there are none, the policy adds no hook. */
  corsOrigins: readonly string[]
}

/** The response headers that scripts may read. */
const exposed = [...apiHeaderNames, 'Date']

const requestHeaders = [
  ...['Accept', 'Authorization', 'Content-Type', 'If-Match', 'If-Modified-Since', 'If-None-Match', 'If-Range'],
  ...['If-Unmodified-Since', 'Idempotency-Key', 'Last-Event-ID', 'Prefer', 'Range', 'X-API-Key', 'X-Request-Id'],
  ...['traceparent', 'tracestate'],
]

const always = { 'access-control-allow-credentials': 'true' }
const responseHeaders = { ...always, 'access-control-expose-headers': exposed.join(', ') }
const preflight = {
  ...always,
  'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
  'access-control-allow-headers': requestHeaders.join(', '),
  'access-control-max-age': '600',
}

/**
 * Implements CORS (Fetch standard). For an allowed origin, every response, including errors, carries that origin in
 * Access-Control-Allow-Origin, and preflights receive 204 on every path without a token. Responses to other origins
 * have no CORS headers, and OPTIONS requests from them get no special treatment. Requests that the policy `https`
 * redirects never reach this policy.
 */
export const cors = fastifyPlugin<CorsOptions>(
  async (app, { corsOrigins }) => {
    if (corsOrigins.length === 0) return
    const allow = corsHeaders(corsOrigins)
    app.addHook('onRequest', (request, reply, done) => {
      if (!allow(request, reply) || !isPreflight(request)) return done()
      addVary(reply, 'Access-Control-Request-Method, Access-Control-Request-Headers')
      reply.removeHeader('access-control-expose-headers').headers(preflight)
      reply.code(204).header('cache-control', 'no-store').send()
    })
  },
  { name: 'cors', dependencies: ['https'] },
)

/** Returns a function that sets the CORS headers if the origin is allowed, and returns whether it set them. */
export function corsHeaders(origins: readonly string[]): (request: FastifyRequest, reply: FastifyReply) => boolean {
  const allowed = new Set(origins)
  return ({ headers: { origin } }, reply) => {
    if (allowed.size === 0) return false
    // `Vary` is sent even if the request has no Origin, because a cache may reuse the stored response for a page from
    // another origin.
    addVary(reply, 'Origin')
    if (origin === undefined || !allowed.has(origin)) return false
    reply.header('access-control-allow-origin', origin).headers(responseHeaders)
    return true
  }
}

/** Returns true for a CORS preflight request from any origin. */
export const isPreflight = ({ method, headers }: FastifyRequest) =>
  method === 'OPTIONS' && headers['access-control-request-method'] !== undefined
