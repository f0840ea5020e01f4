import type { FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { addVary } from '../headers/vary.ts'
import { routeConfig } from '../route-config.ts'
import { setRawHeaderLines } from '../server/raw-headers.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Who may store a response. `public`: shared caches may store it for a minute, but if the request had credentials,
     * only the client may. `private`: the client may store it but must revalidate it. `none` (the default): nobody may
     * store it.
     */
    cache?: 'public' | 'private' | 'none'
  }
}

const publicSeconds = 60

const noStore = 'no-store'
const freshness = `max-age=${publicSeconds}, must-revalidate`
const privateLine = 'cache-control: private, no-cache\r\n'

/**
 * Request headers that affect the response: its status (200 or 406), its content coding, and the account whose limits
 * it reports. Caches treat Authorization as a credential (RFC 9111 §3.5), but not X-API-Key. Without Vary, a request
 * with either header could receive a response stored for an anonymous caller.
 */
const credentials = 'Authorization, X-API-Key'
const variants = `Accept, Accept-Encoding, ${credentials}`
const varyLine = `vary: ${variants}\r\n`

/**
 * Returns whether the request has credentials. The response then reports the limits of an account, and shared caches
 * must not store it.
 */
const hasCredentials = ({ headers }: FastifyRequest): boolean =>
  headers.authorization !== undefined || headers['x-api-key'] !== undefined

const kindOf = (request: FastifyRequest) => (hasCredentials(request) ? 'own' : 'shared')

/**
 * Sets Cache-Control, Expires and Vary based on the route and the request (RFC 9111 §4.1, §5.2, §5.3). Error responses
 * set their own headers.
 */
export const caching = fastifyPlugin<{ now: () => number }>(
  async (app, { now }) => {
    const fresh = freshnessLines(now)
    app.addHook('onSend', (request, reply, payload, done) => {
      if (reply.hasHeader('cache-control')) return done(null, payload)
      const isRead = request.method === 'GET' || request.method === 'HEAD'
      const cache = (isRead && routeConfig(request).cache) || 'none'
      if (cache === 'none') reply.header('cache-control', noStore)
      else
        setRawHeaderLines(reply, 'caching', (cache === 'public' ? fresh(kindOf(request)) : privateLine) + vary(reply))
      done(null, payload)
    })
  },
  { name: 'caching', dependencies: ['errorHandler'] },
)

/** Returns the Vary line. If Vary is already set, extends that header instead and returns an empty string. */
function vary(reply: FastifyReply): string {
  if (!reply.hasHeader('vary')) return varyLine
  addVary(reply, variants)
  return ''
}

/**
 * Returns the Cache-Control and Expires lines of a public response: `own` for a request with credentials, otherwise
 * `shared`.
 */
export type FreshnessLines = (kind: 'shared' | 'own') => string

/**
 * Creates a `FreshnessLines` function. A response expires after one minute; the lines are rebuilt at most once a
 * second.
 */
export function freshnessLines(now: () => number): FreshnessLines {
  let second = 0
  const lines = { shared: '', own: '' }
  return (kind) => {
    const current = Math.floor(now() / 1_000)
    if (current !== second) {
      second = current
      const expires = `expires: ${new Date((current + publicSeconds) * 1_000).toUTCString()}\r\n`
      // The lines are joined into one flat string, because a string built with `+` would be flattened again on every
      // write.
      lines.shared = ['cache-control: public, ', freshness, '\r\n', expires].join('')
      lines.own = ['cache-control: private, ', freshness, '\r\n', expires].join('')
    }
    return lines[kind]
  }
}

/**
 * Makes the response of a public route private: only the client may store it, and must revalidate it before each use.
 */
export function cachePrivately(reply: FastifyReply): void {
  addVary(reply.header('cache-control', 'private, no-cache'), variants)
}

/**
 * Sets Cache-Control and Vary for a document that may be stored for `seconds`: by shared caches, or only by the client
 * if the request has credentials.
 */
export function cacheDocument(request: FastifyRequest, reply: FastifyReply, seconds: number): void {
  reply.header('cache-control', `${hasCredentials(request) ? 'private' : 'public'}, max-age=${seconds}`)
  addVary(reply, credentials)
}
