import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import type { LimitName } from './limit.ts'
import type { Limiter } from './limiter.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The operation's own limit, in addition to the general limit; `none` exempts the operation from counting. */
    limit?: LimitName | 'none'
  }
}

/**
 * Enforces rate limits: responds with 429 and Retry-After above a rate limit and with 403 above a quota, and delays
 * bursts. Responses to counted requests include the limit headers. Requests without a route are counted, but still get
 * a 404 or 405.
 */
export const limits = fastifyPlugin<{ limiter: Limiter }>(
  async (app, { limiter }) => {
    app.addHook('onRequest', limiter.admit)
    app.addHook('onRoute', (route) => {
      if (route.config?.limit === 'reports') settleByResponse(route, limiter)
    })
    app.addHook('preClose', async () => limiter.release())
    app.addHook('onClose', limiter.close)
  },
  { name: 'rateLimits', dependencies: ['errorHandler', 'authenticate'] },
)

const refusals = new Set([401, 403, 429, 503])

/**
 * Charges the report quota only if a report is accepted: refunds it for client errors, server errors and replayed
 * responses. If the request is refused, for example because a queue is full, also refunds the request quota.
 */
function settleByResponse(route: RouteOptions, limiter: Limiter): void {
  const admitted = new WeakSet<FastifyRequest>()
  // Runs only for admitted and authorized requests: all other requests have used no quota or have already been
  // refunded.
  const admit = async (request: FastifyRequest) => void admitted.add(request)
  const settle = async (request: FastifyRequest, reply: FastifyReply) => {
    if (!admitted.has(request)) return
    if (refusals.has(reply.statusCode)) limiter.refund(request, reply)
    else if (reply.statusCode >= 300 || reply.hasHeader('idempotent-replayed')) limiter.refund(request, reply, 'report')
  }
  route.preParsing = [...[route.preParsing ?? []].flat(), admit]
  route.onSend = [...[route.onSend ?? []].flat(), settle]
}
