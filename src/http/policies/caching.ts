import type { FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { addVary } from '../headers/vary.ts'
import { routeConfig } from '../route-config.ts'
import { setRawHeaderLines } from '../server/raw-headers.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Who may store a response: `public` lets shared caches store it for a minute (only the client if the request had
     * credentials), `private` lets the client store it but requires revalidation, `none` (the default) forbids storing it.
     */
    cache?: 'public' | 'private' | 'none'
  }
}

const publicSeconds = 60

/** Cache-Control of a response that must not be stored. */
const noStore = 'no-store'
const freshness = `max-age=${publicSeconds}, must-revalidate`
const privateLine = 'cache-control: private, no-cache\r\n'

/**
 * The request headers that select a response: they determine 200 or 406, the coding, and the account whose limits are
 * reported. Caches know that Authorization is a credential (RFC 9111 §3.5) but not that X-API-Key is one; without Vary, a
 * request with either could get a response stored for an anonymous caller.
 */
const credentials = 'Authorization, X-API-Key'
const variants = `Accept, Accept-Encoding, ${credentials}`
const varyLine = `vary: ${variants}\r\n`

/** Whether the response reports the rate limit and quota of an account, which shared caches must not store. */
const hasCredentials = ({ headers }: FastifyRequest): boolean =>
  headers.authorization !== undefined || headers['x-api-key'] !== undefined

/**
 * Sets Cache-Control, Expires and Vary based on the route and the request (RFC 9111 §4.1, §5.2, §5.3). Errors set their own.
 */
export const caching = fastifyPlugin<{ now: () => number }>(
  async (app, { now }) => {
    const publicLines = linesOfSecond(now)
    app.addHook('onSend', (request, reply, payload, done) => {
      if (reply.hasHeader('cache-control')) return done(null, payload)
      const isRead = request.method === 'GET' || request.method === 'HEAD'
      const cache = (isRead && routeConfig(request).cache) || 'none'
      if (cache === 'none') reply.header('cache-control', noStore)
      else setRawHeaderLines(reply, 'caching', (cache === 'public' ? publicLines(request) : privateLine) + vary(reply))
      done(null, payload)
    })
  },
  { name: 'caching', dependencies: ['errorHandler'] },
)

/** The Vary line; empty if Vary is already set, in which case that header is extended. */
function vary(reply: FastifyReply): string {
  if (!reply.hasHeader('vary')) return varyLine
  addVary(reply, variants)
  return ''
}

/** Cache-Control and an Expires date one minute ahead, with and without credentials; rebuilt once a second. */
function linesOfSecond(now: () => number): (request: FastifyRequest) => string {
  let second = 0
  let shared = ''
  let own = ''
  return (request) => {
    const current = Math.floor(now() / 1_000)
    if (current !== second) {
      second = current
      const expires = `expires: ${new Date((current + publicSeconds) * 1_000).toUTCString()}\r\n`
      // Joined into one flat string: a string concatenated with `+` would be flattened again on every write.
      shared = ['cache-control: public, ', freshness, '\r\n', expires].join('')
      own = ['cache-control: private, ', freshness, '\r\n', expires].join('')
    }
    return hasCredentials(request) ? own : shared
  }
}

/** Sets Cache-Control for a document that shared caches may store for `seconds`. */
export function cacheDocument(request: FastifyRequest, reply: FastifyReply, seconds: number): void {
  reply.header('cache-control', `${hasCredentials(request) ? 'private' : 'public'}, max-age=${seconds}`)
  addVary(reply, credentials)
}
