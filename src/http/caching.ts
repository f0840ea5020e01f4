import fastifyPlugin from 'fastify-plugin'
import { factsOf } from './facts.ts'
import { addVary } from './vary.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Who may keep an answer: shared caches for a minute, the client after asking again, or nobody (the default). */
    cache?: 'public' | 'private' | 'none'
  }
}

const publicSeconds = 60
const directives = {
  public: `public, max-age=${publicSeconds}, must-revalidate`,
  private: 'private, no-cache',
  none: 'no-store',
}

/** What led to an answer that is kept: 200 or 406, the coding, and what only this caller is shown. */
const variants = { public: 'Accept, Accept-Encoding', private: 'Accept, Accept-Encoding, Authorization' }

/** Cache-Control, Expires and Vary from the route (RFC 9111 §4.1, §5.2, §5.3); errors set their own. */
export const caching = fastifyPlugin<{ now: () => number }>(
  async (app, { now }) => {
    const expires = expiresHeader(now)
    app.addHook('onSend', (request, reply, payload, done) => {
      if (reply.hasHeader('cache-control')) return done(null, payload)
      const isRead = request.method === 'GET' || request.method === 'HEAD'
      const cache = (isRead && factsOf(request).cache) || 'none'
      reply.header('cache-control', directives[cache])
      if (cache === 'public') reply.header('expires', expires())
      if (cache !== 'none') addVary(reply, variants[cache])
      done(null, payload)
    })
  },
  { name: 'caching', dependencies: ['errors'] },
)

/** The Expires date a minute ahead, made anew once a second. */
function expiresHeader(now: () => number): () => string {
  let second = 0
  let text = ''
  return () => {
    const current = Math.floor(now() / 1_000)
    if (current !== second) {
      second = current
      text = new Date((current + publicSeconds) * 1_000).toUTCString()
    }
    return text
  }
}
