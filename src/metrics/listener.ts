import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { isHealthPath } from '../http/server/health.ts'
import { responseClass } from '../http/server/raw-headers.ts'
import { type MetricsRouteOptions, metricsType } from './route.ts'

export interface MetricsListenerOptions extends MetricsRouteOptions {
  /** Handles health checks. */
  onHealth: (request: IncomingMessage, response: ServerResponse) => void
  /** Called with the error if the metrics cannot be read; the response is then 500. */
  onError: (error: unknown) => void
}

const limits = {
  ...{ maxHeaderSize: 16_384, headersTimeout: 10_000, requestTimeout: 10_000, keepAliveTimeout: 75_000 },
  ServerResponse: responseClass,
}
const maxConnections = 100

/**
 * Creates an HTTP listener without TLS for a monitoring system. Serves GET and HEAD of `/metrics`, `/livez` and
 * `/readyz` without a token, and responds with 404 to everything else. Accepts at most 100 connections and reads no
 * request bodies.
 */
export function metricsServer({ read, onHealth, onError }: MetricsListenerOptions): Server {
  const server = createServer(limits, (request, response) => {
    const isRead = request.method === 'GET' || request.method === 'HEAD'
    if (isRead && isHealthPath(request.url)) onHealth(request, response)
    else if (isRead && isMetricsPath(request.url)) {
      read().then(
        (text) => respond(response, 200, metricsType, text),
        (error) => {
          onError(error)
          respond(response, 500, plain, 'The metrics could not be read\n')
        },
      )
    } else respond(response, 404, plain, 'This listener serves only /metrics, /livez and /readyz\n')
  })
  server.maxConnections = maxConnections
  return server
}

const isMetricsPath = (target: string | undefined) => /^\/metrics(\?|$)/.test(target ?? '')

const plain = 'text/plain; charset=utf-8'

/**
 * Sends a response, without its body for HEAD. If the request has a body, closes the connection, because the body is
 * not read.
 */
function respond(response: ServerResponse, status: number, type: string, text: string): void {
  const { headers } = response.req
  const hasBody = headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
  response.writeHead(status, {
    'content-type': type,
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
    ...(hasBody && { connection: 'close' }),
  })
  response.end(text)
}
