import type { FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { addVary } from '../headers/vary.ts'
import { routeConfig } from '../route-config.ts'
import { setRawHeaderLines } from '../server/raw-headers.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Who may store a response: `public`, shared caches for a minute (with credentials, only the client); `private`, the
     * client, which must revalidate; `none`, nobody (the default).
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
 * The request headers that select a response: they decide 200 or 406, the coding, and the account whose limits it shows.
 * Caches know that Authorization is a credential (RFC 9111 §3.5) but not that X-API-Key is one; without Vary, a request with
 * either would get a response stored for an anonymous caller.
 */
const credentials = 'Authorization, X-API-Key'
const variants = `Accept, Accept-Encoding, ${credentials}`
const varyLine = `vary: ${variants}\r\n`

/** Whether a response shows the rate and quota of an account, which shared caches must not store. */
const hasCredentials = ({ headers }: FastifyRequest): boolean =>
  headers.authorization !== undefined || headers['x-api-key'] !== undefined

/** Sets Cache-Control, Expires and Vary from the route and the request (RFC 9111 §4.1, §5.2, §5.3); errors set their own. */
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
  { name: 'caching', dependencies: ['errors'] },
)

/** The Vary line; empty when Vary is already set, which is then extended. */
function vary(reply: FastifyReply): string {
  if (!reply.hasHeader('vary')) return varyLine
  addVary(reply, variants)
  return ''
}

/** Cache-Control with an Expires date one minute ahead, cached for a second for callers with and without credentials. */
function linesOfSecond(now: () => number): (request: FastifyRequest) => string {
  let second = 0
  let shared = ''
  let own = ''
  return (request) => {
    const current = Math.floor(now() / 1_000)
    if (current !== second) {
      second = current
      const expires = `expires: ${new Date((current + publicSeconds) * 1_000).toUTCString()}\r\n`
      // Joined into one flat string; concatenation with `+` would be flattened again on every write.
      shared = ['cache-control: public, ', freshness, '\r\n', expires].join('')
      own = ['cache-control: private, ', freshness, '\r\n', expires].join('')
    }
    return hasCredentials(request) ? own : shared
  }
}

/** Cache-Control for a document whose route lets shared caches store it for `seconds`. */
export function keepDocument(request: FastifyRequest, reply: FastifyReply, seconds: number): void {
  reply.header('cache-control', `${hasCredentials(request) ? 'private' : 'public'}, max-age=${seconds}`)
  addVary(reply, credentials)
}
