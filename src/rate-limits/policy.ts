import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import type { LimitName } from './limit.ts'
import type { Limiter } from './limiter.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** A limit of its own besides the general one; `none` where nothing is counted. */
    limit?: LimitName | 'none'
  }
}

/**
 * How much is too much: 429 with Retry-After beyond a rate, 403 beyond a quota, a delay in between. Answers that follow say
 * where the client stands; paths that are not there are counted, and still answered with 404 or 405.
 */
export const limits = fastifyPlugin<{ limiter: Limiter }>(
  async (app, { limiter }) => {
    app.addHook('onRequest', limiter.admit)
    app.addHook('onRoute', (route) => {
      if (route.config?.limit === 'reports') settleByAnswer(route, limiter)
    })
    app.addHook('preClose', async () => limiter.release())
    app.addHook('onClose', limiter.close)
  },
  { name: 'limits', dependencies: ['errors', 'identify'] },
)

const refusals = new Set([401, 403, 429, 503])

/**
 * A report is used by the answer that accepts one: a mistake, a fault or a repeated answer gives it back; a refusal, as of
 * a full queue, gives back the request, too.
 */
function settleByAnswer(route: RouteOptions, limiter: Limiter): void {
  const admitted = new WeakSet<FastifyRequest>()
  // Runs for those who were admitted and are authorized: all others have used nothing, or have it back.
  const admit = async (request: FastifyRequest) => void admitted.add(request)
  const settle = async (request: FastifyRequest, reply: FastifyReply) => {
    if (!admitted.has(request)) return
    if (refusals.has(reply.statusCode)) limiter.giveBack(request, reply)
    else if (reply.statusCode >= 300 || reply.hasHeader('idempotent-replayed'))
      limiter.giveBack(request, reply, 'report')
  }
  route.preParsing = [...[route.preParsing ?? []].flat(), admit]
  route.onSend = [...[route.onSend ?? []].flat(), settle]
}
