import type { FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'

declare module 'fastify' {
  interface FastifyRequest {
    /** When the request's headers had arrived, in ms of the monotonic clock. */
    arrivedAt: number
  }
}

/** Where one line per answered request goes; never the query string, a header or a body, which may hold secrets. */
export interface AccessLine {
  requestId: string
  method: string
  path: string
  status: number
  ms: number
  client: string | undefined
}

export type Access = (line: AccessLine) => void

/** Text that JSON has as it is (RFC 8259 §7). */
const plain = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/
const quoted = (text: string) => (plain.test(text) ? `"${text}"` : JSON.stringify(text))

/**
 * Makes the writer of lines as JSON, in the form of the logger's lines at level info, which would take four times as long.
 * The id is safe characters and the method a token; only what else a client has sent may need escapes. Lines of one
 * millisecond begin alike, and those of one client end alike.
 */
export function accessTexts(): (line: AccessLine, timeMs: number) => string {
  let start = ''
  let startsMs = Number.NaN
  let end = ''
  let endsFor: string | null | undefined = null
  return ({ requestId, method, path, status, ms, client }, timeMs) => {
    if (timeMs !== startsMs) start = ['{"level":30,"time":', timeMs, ',"requestId":"'].join('')
    if (client !== endsFor) end = client === undefined ? '}\n' : [',"client":', quoted(client), '}\n'].join('')
    startsMs = timeMs
    endsFor = client
    return `${start}${requestId}","method":"${method}","path":${quoted(path)},"status":${status},"ms":${ms}${end}`
  }
}

/** The first policy: notes when a request arrived. */
export const arrival = fastifyPlugin(
  async (app) => {
    app.decorateRequest('arrivedAt', 0)
    app.addHook('onRequest', (request, _reply, done) => {
      request.arrivedAt = performance.now()
      done()
    })
  },
  { name: 'arrival' },
)

/**
 * The last policy: one line for each answer, when it is ready to be sent. A hook for answers that were sent would cost
 * a fifth of a whole request.
 */
export const accessLog = fastifyPlugin<{ write: Access }>(
  async (app, { write }) => {
    app.addHook('onSend', (request, reply, payload, done) => {
      write(accessLine(request, reply.statusCode))
      done(null, payload)
    })
  },
  { name: 'accessLog', dependencies: ['arrival', 'conditional'] },
)

/** The line of a request that was answered with `status`. */
export function accessLine(request: FastifyRequest, status: number): AccessLine {
  const { id, method, caller, url, arrivedAt } = request
  const query = url.indexOf('?')
  return {
    requestId: id,
    method,
    path: query < 0 ? url : url.slice(0, query),
    status,
    ms: Math.round((performance.now() - arrivedAt) * 100) / 100,
    client: caller && 'caller' in caller ? caller.caller.clientId : undefined,
  }
}
