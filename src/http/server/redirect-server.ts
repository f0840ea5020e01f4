import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { credentialHeader, type Plaintext } from '../policies/https.ts'
import { isHealthPath } from './health.ts'
import { type LingerOptions, lingerOnClose } from './lingering-close.ts'
import { responseClass } from './raw-headers.ts'

export interface RedirectOptions extends LingerOptions {
  baseUrl: string
  onPlaintext?: (peer: Plaintext) => void
  /** Handles health checks, which are not redirected. */
  onHealth: (request: IncomingMessage, response: ServerResponse) => void
}

const limits = {
  ...{ maxHeaderSize: 16_384, headersTimeout: 10_000, requestTimeout: 10_000, connectionsCheckingInterval: 2_000 },
  ServerResponse: responseClass,
}

/**
 * Creates a plain HTTP listener that redirects every request except health checks with 301 to the same path and query
 * under `baseUrl` (RFC 9110 §15.4.2). It reads no bodies, and sends no Strict-Transport-Security, which is valid only
 * over HTTPS (RFC 6797 §7.2).
 */
export function redirectServer({ baseUrl, onPlaintext, onHealth, later }: RedirectOptions): Server {
  const server = createServer(limits, (request, response) => {
    if (isHealthPath(request.url)) {
      response.shouldKeepAlive = false
      onHealth(request, response)
      return
    }
    const header = onPlaintext && credentialHeader(request.headers)
    if (header) onPlaintext({ address: request.socket.remoteAddress ?? null, header })
    const target = request.url?.startsWith('/') ? request.url : '/'
    response.writeHead(301, { location: baseUrl + target, 'cache-control': 'no-store', connection: 'close' })
    response.end()
    request.socket.setTimeout(1_000, () => request.socket.destroy())
  })
  lingerOnClose(server, { later })
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
  return server
}
