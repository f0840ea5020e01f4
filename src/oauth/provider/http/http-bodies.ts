import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { FastifyError, FastifyInstance } from 'fastify'

/** The provider's own limit, enforced here with 413, because the provider would respond with 400. */
export const bodyLimit = 56 * 1_024

export const isForm = (headers: IncomingHttpHeaders): boolean =>
  /^application\/x-www-form-urlencoded *(;|$)/i.test(headers['content-type'] ?? '')

/** Passes bodies to the handlers as buffers, without parsing them. */
export function acceptRawBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit }, (_request, body, done) => done(null, body))
}

/** Renders body errors in the format defined in RFC 6749 §5.2. */
export function renderBodyErrors(app: FastifyInstance): void {
  app.setErrorHandler<FastifyError>((error, _request, reply) => {
    // Errors thrown by the service's own policies are left to the service's error handler.
    if (!error.code?.startsWith('FST_ERR_CTP_')) throw error
    const status = error.statusCode === 413 ? 413 : 400
    const description = status === 413 ? `the body is larger than ${bodyLimit} bytes` : 'the body could not be read'
    return reply
      .code(status)
      .header('cache-control', 'no-store')
      .send({ error: 'invalid_request', error_description: description })
  })
}

/** Returns a copy of the request for the provider, with the body that has already been read. */
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

/**
 * Stores the request id under the provider's response, the only object that the provider's events share with the
 * request.
 */
export const storeRequestId = (response: ServerResponse, id: string): unknown => ids.set(response, id)

export const requestIdOf = (response: ServerResponse): string | null => ids.get(response) ?? null
