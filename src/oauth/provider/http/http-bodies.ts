import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { FastifyError, FastifyInstance } from 'fastify'

/** The provider's own limit, which it would enforce with 400. */
export const bodyLimit = 56 * 1_024

export const isForm = (headers: IncomingHttpHeaders): boolean =>
  /^application\/x-www-form-urlencoded *(;|$)/i.test(headers['content-type'] ?? '')

/** Reads bodies as they are, without parsing. */
export function takeRawBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit }, (_request, body, done) => done(null, body))
}

/** Renders body errors in the form of RFC 6749 §5.2. */
export function nameBodyErrors(app: FastifyInstance): void {
  app.setErrorHandler<FastifyError>((error, _request, reply) => {
    // Errors thrown by the service's own policies are left to their handler.
    if (!error.code?.startsWith('FST_ERR_CTP_')) throw error
    const status = error.statusCode === 413 ? 413 : 400
    const description = status === 413 ? `the body is larger than ${bodyLimit} bytes` : 'the body cannot be read'
    return reply
      .code(status)
      .header('cache-control', 'no-store')
      .send({ error: 'invalid_request', error_description: description })
  })
}

/** The request for the provider, with the body that was read already. */
export function withBody(raw: IncomingMessage, body: Buffer): IncomingMessage {
  const { method, url, socket, httpVersion, httpVersionMajor, httpVersionMinor } = raw
  const headers = { ...raw.headers }
  delete headers['transfer-encoding']
  headers['content-length'] = String(body.length)
  const message = Object.assign(new Readable({ read: () => {} }), { method, url, headers, socket })
  message.push(body)
  message.push(null)
  return Object.assign(message, { httpVersion, httpVersionMajor, httpVersionMinor }) as unknown as IncomingMessage
}

const ids = new WeakMap<ServerResponse, string>()

/** Stores the request id with the provider's response, the only object that its events share with the request. */
export const noteRequestId = (answer: ServerResponse, id: string): unknown => ids.set(answer, id)

export const requestIdOf = (answer: ServerResponse): string | null => ids.get(answer) ?? null
