import type { ServerOptions } from 'node:https'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type CorsOptions, corsHeaders } from '../policies/cors.ts'
import { type HttpsOptions, transport } from '../policies/https.ts'
import { type ErrorsOptions, render, toProblem } from '../problems/error-handler.ts'
import type { Problem } from '../problems/problem.ts'
import type { LingerOptions } from './lingering-close.ts'
import { respondToParserError } from './parser-errors.ts'
import { responseClass } from './raw-headers.ts'
import { requestId } from './request-id.ts'

const bodyLimitBytes = 1_048_576
/** The maximum size of a request line and its header fields. */
export const headersLimitBytes = 16_384

/**
 * Timeouts for the TLS handshake, the request head and the whole request; the interval at which they are checked; and the
 * keep-alive timeout. Load balancers must be the first to close idle connections; otherwise, they could send requests on a
 * connection that is being closed.
 */
const defaultTimeouts = {
  ...{ handshakeTimeout: 10_000, headersTimeout: 10_000, requestTimeout: 30_000, connectionsCheckingInterval: 2_000 },
  keepAliveTimeout: 75_000,
}

/** The timeouts, in ms. */
export type ServerTimeouts = typeof defaultTimeouts

/** Returns the default timeouts with the given overrides. */
export const serverTimeouts = (changes: Partial<ServerTimeouts> = {}): ServerTimeouts => ({
  ...defaultTimeouts,
  ...changes,
})

/**
 * Clients can resume a TLS session for an hour. The context is fixed, because Node.js derives the default from the
 * command line, so processes started differently could not resume each other's sessions.
 */
const sessions = { sessionTimeout: 3_600, sessionIdContext: 'plinth' }

export interface ServerSettings extends ErrorsOptions, HttpsOptions, CorsOptions, LingerOptions {
  /** The TLS options; null for plain HTTP, when a proxy in front of the service terminates TLS. */
  tls: ServerOptions | null
  /** Called when the router cannot parse a request; may set response headers and return a different problem. */
  beforeRouterError?: (request: FastifyRequest, reply: FastifyReply) => Problem | undefined
  /** Overrides individual timeouts, in milliseconds. */
  timeouts?: Partial<ServerTimeouts>
  /** Whether clients may negotiate HTTP/2 during the TLS handshake; `serveHttp2` then handles their connections. */
  http2?: boolean
}

/** Returns the server options: limits, timeouts, and the responses to requests that do not reach a route. */
export function serverOptions(settings: ServerSettings) {
  const { requestTimeout, keepAliveTimeout, handshakeTimeout, ...arriving } = serverTimeouts(settings.timeouts)
  // `requestIntegrity` checks for Host instead, so that responses to requests without Host have the usual error body.
  const server = {
    ...{ ...arriving, maxHeaderSize: headersLimitBytes, requireHostHeader: false },
    ServerResponse: responseClass,
  }
  const { tls, http2 } = settings
  const protocols = http2 ? { ALPNProtocols: ['h2', 'http/1.1'] } : {}
  return {
    ...(tls
      ? { https: { ...tls, ...server, ...sessions, ...protocols, handshakeTimeout, minVersion: 'TLSv1.2' as const } }
      : { http: server }),
    logger: false,
    genReqId: requestId as never,
    // Determines `request.ip`. No other property that Fastify derives from forwarding headers is used.
    trustProxy: settings.trustedProxies.length > 0 && [...settings.trustedProxies],
    bodyLimit: bodyLimitBytes,
    requestTimeout,
    keepAliveTimeout,
    // While the server drains, requests that arrive on open connections are still handled.
    return503OnClosing: false,
    forceCloseConnections: 'idle' as const,
    routerOptions: { maxParamLength: 300, ignoreTrailingSlash: false },
    clientErrorHandler: respondToParserError(settings),
    frameworkErrors: routerErrors(settings),
  }
}

/** Responds to requests that the router rejects before any policy runs. */
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

/** Matches a path and query that are valid in a URL, even if they do not decode as UTF-8. */
const isTarget = /^\/([^%\s]|%[\da-f]{2})*$/i
