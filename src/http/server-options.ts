import type { ServerOptions } from 'node:https'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type ErrorsOptions, render, toProblem } from './errors.ts'
import { securityHeaders } from './https.ts'
import { answerParserError } from './parser-errors.ts'
import { requestId } from './request-id.ts'

const bodyLimitBytes = 1_048_576
const headersLimitBytes = 16_384

/**
 * How the server reads requests: its bounds and time limits, and the answers to what never reaches a route. Without
 * `tls` it speaks plain HTTP, behind a proxy that speaks HTTPS.
 */
export function serverOptions(tls: ServerOptions | null, errors: ErrorsOptions) {
  const server = { maxHeaderSize: headersLimitBytes, headersTimeout: 10_000 }
  return {
    ...(tls ? { https: { ...tls, ...server, minVersion: 'TLSv1.2' as const } } : { http: server }),
    logger: false,
    genReqId: requestId as never,
    bodyLimit: bodyLimitBytes,
    requestTimeout: 30_000,
    keepAliveTimeout: 5_000,
    forceCloseConnections: 'idle' as const,
    routerOptions: { maxParamLength: 300, ignoreTrailingSlash: false },
    clientErrorHandler: answerParserError(errors),
    frameworkErrors: (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
      // No policy has seen this request: the router itself gave up on its path.
      reply.header('x-request-id', request.id).headers(securityHeaders)
      return render(toProblem(error, errors), request, reply, errors)
    },
  }
}
