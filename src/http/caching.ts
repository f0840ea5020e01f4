import type { FastifyReply } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { factsOf } from './facts.ts'
import { putLines } from './header-section.ts'
import { addVary } from './vary.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Who may keep an answer: shared caches for a minute, the client after asking again, or nobody (the default). */
    cache?: 'public' | 'private' | 'none'
  }
}

const publicSeconds = 60

/** Cache-Control of an answer that nobody may keep. */
const noStore = 'no-store'
const publicLine = `cache-control: public, max-age=${publicSeconds}, must-revalidate\r\n`
const privateLine = 'cache-control: private, no-cache\r\n'

/** What led to an answer that is kept: 200 or 406, the coding, and what only this caller is shown. */
const variants = { public: 'Accept, Accept-Encoding', private: 'Accept, Accept-Encoding, Authorization' }

/** Cache-Control, Expires and Vary from the route (RFC 9111 §4.1, §5.2, §5.3); errors set their own. */
export const caching = fastifyPlugin<{ now: () => number }>(
  async (app, { now }) => {
    const publicLines = linesOfSecond(now)
    app.addHook('onSend', (request, reply, payload, done) => {
      if (reply.hasHeader('cache-control')) return done(null, payload)
      const isRead = request.method === 'GET' || request.method === 'HEAD'
      const cache = (isRead && factsOf(request).cache) || 'none'
      if (cache === 'none') reply.header('cache-control', noStore)
      else putLines(reply, 'caching', (cache === 'public' ? publicLines() : privateLine) + vary(reply, variants[cache]))
      done(null, payload)
    })
  },
  { name: 'caching', dependencies: ['errors'] },
)

/** The line of Vary, or none where others have begun one, which is added to. */
function vary(reply: FastifyReply, names: string): string {
  if (!reply.hasHeader('vary')) return `vary: ${names}\r\n`
  addVary(reply, names)
  return ''
}

/** Cache-Control and the Expires date a minute ahead, made anew once a second. */
function linesOfSecond(now: () => number): () => string {
  let second = 0
  let lines = ''
  return () => {
    const current = Math.floor(now() / 1_000)
    if (current !== second) {
      second = current
      const date = new Date((current + publicSeconds) * 1_000).toUTCString()
      // Joined, so that it is one piece wherever it is written.
      lines = [publicLine, 'expires: ', date, '\r\n'].join('')
    }
    return lines
  }
}
