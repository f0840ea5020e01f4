import type { FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { addVary } from '../headers/vary.ts'
import { routeConfig } from '../route-config.ts'
import { setRawHeaderLines } from '../server/raw-headers.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Who may keep an answer: shared caches for a minute (without credentials, else the client alone), the client after
     * asking again, or nobody (the default).
     */
    cache?: 'public' | 'private' | 'none'
  }
}

const publicSeconds = 60

/** Cache-Control of an answer that nobody may keep. */
const noStore = 'no-store'
const freshness = `max-age=${publicSeconds}, must-revalidate`
const privateLine = 'cache-control: private, no-cache\r\n'

/**
 * What selects an answer: 200 or 406, the coding, and the account whose limits it shows. Caches know that Authorization is a
 * credential (RFC 9111 §3.5) but not that X-API-Key is, and both would be served an answer stored for a caller without.
 */
const credentials = 'Authorization, X-API-Key'
const variants = `Accept, Accept-Encoding, ${credentials}`
const varyLine = `vary: ${variants}\r\n`

/** Whether an answer shows the rate and quota of an account, which shared caches must not store. */
const hasCredentials = ({ headers }: FastifyRequest): boolean =>
  headers.authorization !== undefined || headers['x-api-key'] !== undefined

/** Cache-Control, Expires and Vary from the route and the request (RFC 9111 §4.1, §5.2, §5.3); errors set their own. */
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

/** The line of Vary, or none where others have begun one, which is added to. */
function vary(reply: FastifyReply): string {
  if (!reply.hasHeader('vary')) return varyLine
  addVary(reply, variants)
  return ''
}

/** Cache-Control and the Expires date a minute ahead, made once a second for callers with and without credentials. */
function linesOfSecond(now: () => number): (request: FastifyRequest) => string {
  let second = 0
  let shared = ''
  let own = ''
  return (request) => {
    const current = Math.floor(now() / 1_000)
    if (current !== second) {
      second = current
      const expires = `expires: ${new Date((current + publicSeconds) * 1_000).toUTCString()}\r\n`
      // Joined, so that each is one piece wherever it is written.
      shared = ['cache-control: public, ', freshness, '\r\n', expires].join('')
      own = ['cache-control: private, ', freshness, '\r\n', expires].join('')
    }
    return hasCredentials(request) ? own : shared
  }
}

/** The same for a document that its route lets shared caches keep for so many seconds. */
export function keepDocument(request: FastifyRequest, reply: FastifyReply, seconds: number): void {
  reply.header('cache-control', `${hasCredentials(request) ? 'private' : 'public'}, max-age=${seconds}`)
  addVary(reply, credentials)
}
