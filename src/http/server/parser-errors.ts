import { randomUUID } from 'node:crypto'
import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { ConnectionError } from 'fastify'
import { securityHeaders } from '../policies/https.ts'
import { maxUrlLength } from '../policies/request-integrity.ts'
import type { ErrorsOptions } from '../problems/error-handler.ts'
import { problemBody } from '../problems/error-handler.ts'
import { Problem } from '../problems/problem.ts'
import { type LingerOptions, linger, lingerOnClose } from './lingering-close.ts'

export const malformed = new Problem('INVALID_INPUT', 'This is not a well-formed HTTP/1.1 request')
export const unknownMethod = new Problem('NOT_IMPLEMENTED', 'The method is unknown')
export const noTunnel = new Problem('NOT_IMPLEMENTED', 'CONNECT is not supported: the service is not a proxy')
export const tooLong = new Problem('URI_TOO_LONG', `The request target may have at most ${maxUrlLength} characters`)
export const tooLarge = new Problem(
  'HEADERS_TOO_LARGE',
  'The request line and headers together may have at most 16 KiB',
)
export const tooLate = new Problem('REQUEST_TIMEOUT', 'The request did not arrive in time')
const tooManyExtensions = new Problem('PAYLOAD_TOO_LARGE', 'The chunk extensions are too long')

type UnroutedOptions = ErrorsOptions & LingerOptions

/** An HTTP parser error, with the last bytes passed to the parser and the number of those bytes that it parsed. */
type ParserError = Pick<ConnectionError, 'code'> & { rawPacket?: unknown; bytesParsed?: number }

/** A socket with the response that is being sent on it and the request that is being parsed, as stored by Node.js. */
type RespondingSocket = Socket & {
  _httpMessage?: (ServerResponse & { req: IncomingMessage }) | null
  parser?: { incoming?: IncomingMessage | null } | null
}

/**
 * Responds to requests that the HTTP parser rejects (RFC 9112 §2.2, §3, §6.3): sends a single problem body after the
 * responses to earlier requests, then closes the connection. If the response to the malformed request has already
 * started, sends no problem and only closes the connection.
 */
export const respondToParserError = (options: UnroutedOptions) => (error: ParserError, socket: RespondingSocket) => {
  const current = socket._httpMessage
  if (unanswerable.has(error.code) || (current?.headersSent && !current.req.complete)) socket.destroy()
  else if (!current && socket.parser?.incoming?.complete === false) linger(socket, options)
  else afterEarlierResponses(socket, () => close(socket, problemOf(error), options))
}

/**
 * Handles requests that Node.js does not pass to routes. CONNECT receives 501 (RFC 9110 §9.3.6). A request with an
 * Expect header other than 100-continue is handled like any other, so that `contentNegotiation` rejects it.
 */
export function handleUnrouted(server: Server, options: UnroutedOptions): void {
  lingerOnClose(server, options)
  server.on('connect', (_request, socket: RespondingSocket) => {
    afterEarlierResponses(socket, () => close(socket, noTunnel, options))
  })
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
}

/** Errors after which no response is possible: the client has disconnected, or TLS was never established. */
const unanswerable = new Set<string | undefined>(['ECONNRESET', 'ERR_TLS_HANDSHAKE_TIMEOUT'])

/** Waits for the responses to earlier requests, because responses on a connection are sent in order (RFC 9112 §9.3.2). */
function afterEarlierResponses(socket: RespondingSocket, run: () => void): void {
  const current = socket._httpMessage
  if (current?.req.complete) {
    socket.pause()
    current.once('close', () => setImmediate(afterEarlierResponses, socket, run))
  } else run()
}

/** Returns the problem for a parser error, judged by the line at which the parser stopped. */
function problemOf({ code, rawPacket, bytesParsed = 0 }: ParserError): Problem {
  const bytes = Buffer.isBuffer(rawPacket) ? rawPacket : Buffer.alloc(0)
  // The start of the line at which the parser stopped; other lines may precede it.
  const from = bytes.lastIndexOf('\n', Math.max(bytesParsed - 1, 0)) + 1
  const start = bytes.toString('latin1', from, from + 2 * maxUrlLength)
  if (code === 'HPE_HEADER_OVERFLOW') return longTarget.test(start) ? tooLong : tooLarge
  if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW') return tooManyExtensions
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return tooLate
  return code === 'HPE_INVALID_METHOD' && requestLine.test(start) ? unknownMethod : malformed
}

const longTarget = new RegExp(`^[A-Z]+ [^ \\r\\n]{${maxUrlLength + 1}}`)
/** Matches a request line with a plausible method; data in other protocols does not match. */
const requestLine = /^[A-Za-z-]{1,40} \/[^ \r\n]* HTTP\/1\.[01]\r\n/

/** Builds a response without Fastify. */
export function rawResponse(
  problem: Problem,
  isEncrypted: boolean,
  { baseUrl, now }: Pick<ErrorsOptions, 'baseUrl' | 'now'>,
) {
  const common = { requestId: randomUUID(), timestamp: new Date(now()).toISOString() }
  const body = JSON.stringify(problemBody(problem, baseUrl, common))
  const { 'strict-transport-security': hsts, ...hardening } = securityHeaders
  const headers = {
    // HSTS is sent only over HTTPS (RFC 6797 §7.2). A TLS proxy in front of the service adds its own header.
    ...(isEncrypted && { 'strict-transport-security': hsts }),
    ...hardening,
    'content-type': 'application/problem+json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
    'x-error-code': problem.code,
    'x-request-id': common.requestId,
  }
  return { status: problem.status, headers, body }
}

/** Writes the last response on a connection and then closes the connection, even if the client does not. */
function close(socket: Socket, problem: Problem, options: UnroutedOptions): void {
  // The last response has already been written but is still in transit.
  if (!socket.writable) {
    socket.destroySoon()
    return
  }
  const { status, headers, body } = rawResponse(problem, (socket as TLSSocket).encrypted === true, options)
  const lines = Object.entries({ ...headers, connection: 'close' }).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.write(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`)
  linger(socket, options)
}
