import type { ServerOptions } from 'node:https'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type CorsOptions, corsHeaders } from '../policies/cors.ts'
import { type HttpsOptions, transport } from '../policies/https.ts'
import { type ErrorsOptions, render, toProblem } from '../problems/error-handler.ts'
import type { Problem } from '../problems/problem.ts'
import type { LingerOptions } from './lingering-close.ts'
import { answerParserError } from './parser-errors.ts'
import { responseClass } from './raw-headers.ts'
import { requestId } from './request-id.ts'

const bodyLimitBytes = 1_048_576
const headersLimitBytes = 16_384

/**
 * How long a TLS handshake and a request may take to arrive, how often that is looked at, and how long a connection
 * without a request stays open: longer than load balancers keep theirs, which else meet one that is just being closed.
 */
const patience = {
  ...{ handshakeTimeout: 10_000, headersTimeout: 10_000, requestTimeout: 30_000, connectionsCheckingInterval: 2_000 },
  keepAliveTimeout: 75_000,
}

export interface ServerSettings extends ErrorsOptions, HttpsOptions, CorsOptions, LingerOptions {
  /** Without it the server speaks plain HTTP, behind a proxy that speaks HTTPS. */
  tls: ServerOptions | null
  /** Called before a request that the router could not read is refused; may set headers, and return another problem. */
  beforeRouterError?: (request: FastifyRequest, reply: FastifyReply) => Problem | undefined
  /** In milliseconds; what is not given stays as it is. */
  patience?: Partial<typeof patience>
}

/** How the server reads requests: its bounds and time limits, and the answers to what never reaches a route. */
export function serverOptions(settings: ServerSettings) {
  const { requestTimeout, keepAliveTimeout, handshakeTimeout, ...arriving } = { ...patience, ...settings.patience }
  // That a Host is there is a policy's to check, so that its absence gets an answer like all others.
  const server = {
    ...{ ...arriving, maxHeaderSize: headersLimitBytes, requireHostHeader: false },
    ServerResponse: responseClass,
  }
  const { tls } = settings
  return {
    ...(tls ? { https: { ...tls, ...server, handshakeTimeout, minVersion: 'TLSv1.2' as const } } : { http: server }),
    logger: false,
    genReqId: requestId as never,
    // For `request.ip`; nothing else that a proxy says is read from the framework.
    trustProxy: settings.trustedProxies.length > 0 && [...settings.trustedProxies],
    bodyLimit: bodyLimitBytes,
    requestTimeout,
    keepAliveTimeout,
    // What still arrives on an open connection is answered.
    return503OnClosing: false,
    forceCloseConnections: 'idle' as const,
    routerOptions: { maxParamLength: 300, ignoreTrailingSlash: false },
    clientErrorHandler: answerParserError(settings),
    frameworkErrors: routerErrors(settings),
  }
}

/** What the router gives up on, which no policy has seen. */
function routerErrors(settings: ServerSettings) {
  const { secures, redirect } = transport(settings)
  const allowOrigin = corsHeaders(settings.corsOrigins)
  return (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
    if (secures(request, reply)) allowOrigin(request, reply)
    else if (isTarget.test(request.url)) return redirect(request, reply)
    const problem = settings.beforeRouterError?.(request, reply) ?? toProblem(error, settings)
    return render(problem, request, reply, settings)
  }
}

/** A path and query that a URL can have, whatever its octets mean; anything else leads nowhere. */
const isTarget = /^\/([^%\s]|%[\da-f]{2})*$/i
