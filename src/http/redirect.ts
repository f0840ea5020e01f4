import { createServer, type Server } from 'node:http'
import { credentialHeader, type Plaintext } from './https.ts'
import { type LingerOptions, lingerOnClose } from './linger.ts'

export interface RedirectOptions extends LingerOptions {
  baseUrl: string
  onPlaintext?: (peer: Plaintext) => void
}

/**
 * A plain HTTP listener that only answers 301 to the same path and query under `baseUrl` (RFC 9110 §15.4.2).
 * It reads no body, runs no route and sends no Strict-Transport-Security, which counts over HTTPS only (RFC 6797 §7.2).
 */
export function redirectServer({ baseUrl, onPlaintext, later }: RedirectOptions): Server {
  const server = createServer({ maxHeaderSize: 16_384, requestTimeout: 10_000 }, (request, response) => {
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
