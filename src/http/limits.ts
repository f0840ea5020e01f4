import fastifyPlugin from 'fastify-plugin'
import type { LimitName } from './limits/limit.ts'
import type { Limiter } from './limits/limiter.ts'

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
    app.addHook('preClose', async () => limiter.release())
    app.addHook('onClose', limiter.close)
  },
  { name: 'limits', dependencies: ['errors', 'identify'] },
)
