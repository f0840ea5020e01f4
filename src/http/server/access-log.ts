import type { FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { routeConfig } from '../route-config.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** When the request's headers had arrived, in ms of the monotonic clock. */
    arrivedAt: number
  }
}

/** One line per answered request; never the query string, a header or a body, which may hold secrets. */
export interface AccessLine {
  requestId: string
  method: string
  path: string
  /** The pattern of the route, such as `/products/:id`; undefined where no route matched. */
  route: string | undefined
  status: number
  ms: number
  /** Length of the body as it is sent; undefined while that is not known. */
  bytes: number | undefined
  /** The client's address, as the trusted proxies forward it. */
  address: string | undefined
  client: string | undefined
  /** Whom the client acts for: a user's id, or the client itself. */
  subject: string | undefined
  errorCode: string | undefined
}

/** What the framework does not know of a response. */
export interface Answered {
  status: number
  bytes?: number | undefined
  errorCode?: string | undefined
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
  let end = '}\n'
  let endsFor: Sender = { address: undefined, client: undefined, subject: undefined }
  return (line, timeMs) => {
    const { requestId, method, path, route, status, ms, bytes, errorCode } = line
    if (timeMs !== startsMs) {
      start = [
        '{"level":30,"time":"',
        new Date(timeMs).toISOString(),
        '","msg":"request completed","requestId":"',
      ].join('')
      startsMs = timeMs
    }
    if (line.client !== endsFor.client || line.subject !== endsFor.subject || line.address !== endsFor.address) {
      endsFor = line
      end = endOf(line)
    }
    const sized = bytes === undefined ? '' : `,"bytes":${bytes}`
    const target = `"method":"${method}","path":${quoted(path)}${member('route', route)}`
    const result = `"status":${status},"ms":${ms}${sized}${member('errorCode', errorCode)}`
    return `${start}${requestId}",${target},${result}${end}`
  }
}

type Sender = Pick<AccessLine, 'address' | 'client' | 'subject'>

/** Who sent the request; joined, so that it is one piece wherever it is written. */
const endOf = ({ address, client, subject }: Sender) =>
  [member('address', address), member('client', client), member('subject', subject), '}\n'].join('')

const member = (name: string, text: string | undefined) => (text === undefined ? '' : `,"${name}":${quoted(text)}`)

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
      const status = reply.statusCode
      const errorCode = status < 400 ? undefined : (reply.getHeader('x-error-code') as string | undefined)
      write(accessLine(request, { status, bytes: bytesOf(payload, reply), errorCode }))
      done(null, payload)
    })
  },
  { name: 'accessLog', dependencies: ['arrival', 'conditional'] },
)

/** How long a body is; of a stream only what its route says. */
function bytesOf(payload: unknown, reply: FastifyReply): number | undefined {
  if (typeof payload === 'string') return Buffer.byteLength(payload)
  if (payload === null || payload === undefined) return 0
  if (payload instanceof Uint8Array) return payload.length
  return lengthOf(reply.getHeader('content-length'))
}

/** A Content-Length as a number. */
export const lengthOf = (header: unknown): number | undefined => (header === undefined ? undefined : Number(header))

/** The line of a request that was answered. */
export function accessLine(request: FastifyRequest, { status, bytes, errorCode }: Answered): AccessLine {
  const { id, method, caller, url, arrivedAt, ip } = request
  const query = url.indexOf('?')
  const known = caller && 'caller' in caller ? caller.caller : undefined
  return {
    requestId: id,
    method,
    path: query < 0 ? url : url.slice(0, query),
    route: (routeConfig(request) as { url?: string }).url,
    status,
    ms: Math.round((performance.now() - arrivedAt) * 100) / 100,
    bytes: method === 'HEAD' ? 0 : bytes,
    address: ip,
    client: known?.clientId,
    subject: known?.subject,
    errorCode,
  }
}
