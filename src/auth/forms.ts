import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyError, FastifyInstance } from 'fastify'

/** What the provider itself would read at most, and answer with 400. */
export const bodyLimit = 56 * 1_024

export const isForm = (headers: IncomingHttpHeaders): boolean =>
  /^application\/x-www-form-urlencoded *(;|$)/i.test(headers['content-type'] ?? '')

/** Bodies as they are, whole. */
export function takeRawBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit }, (_request, body, done) => done(null, body))
}

/** What is wrong with a body, in the form of RFC 6749 §5.2. */
export function nameBodyErrors(app: FastifyInstance): void {
  app.setErrorHandler<FastifyError>((error, _request, reply) => {
    // What the service's own policies threw is for their handler.
    if (!error.code?.startsWith('FST_ERR_CTP_')) throw error
    const status = error.statusCode === 413 ? 413 : 400
    const description = status === 413 ? `the body is larger than ${bodyLimit} bytes` : 'the body cannot be read'
    return reply
      .code(status)
      .header('cache-control', 'no-store')
      .send({ error: 'invalid_request', error_description: description })
  })
}
