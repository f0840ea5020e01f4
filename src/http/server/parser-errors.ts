import { randomUUID } from 'node:crypto'
import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { ConnectionError } from 'fastify'
import { securityHeaders } from '../policies/https.ts'
import type { ErrorsOptions } from '../problems/error-handler.ts'
import { problemBody } from '../problems/error-handler.ts'
import { Problem } from '../problems/problem.ts'
import { type LingerOptions, linger, lingerOnClose } from './lingering-close.ts'

const urlLimitCharacters = 8_192

const malformed = new Problem('INVALID_INPUT', 'This is not a well-formed HTTP/1.1 request')
const unknownMethod = new Problem('NOT_IMPLEMENTED', 'The service knows no such method')
const noTunnel = new Problem('NOT_IMPLEMENTED', 'The service is no proxy: it makes no tunnels')
const tooLong = new Problem('URI_TOO_LONG', `The request target may have ${urlLimitCharacters} characters`)
const tooLarge = new Problem('HEADERS_TOO_LARGE', 'The request line and headers may have 16 KiB together')
const tooLate = new Problem('REQUEST_TIMEOUT', 'The request did not arrive in time')
const tooManyExtensions = new Problem('PAYLOAD_TOO_LARGE', 'The chunks have more extensions than are read')

type UnroutedOptions = ErrorsOptions & LingerOptions

/** Where it was the parser that refused: the bytes it was given last, as a buffer, and how far it came with them. */
type ParserError = Pick<ConnectionError, 'code'> & { rawPacket?: unknown; bytesParsed?: number }

/** A socket with the answer that is being sent on it, which Node.js keeps there. */
type Answering = Socket & { _httpMessage?: (ServerResponse & { req: IncomingMessage }) | null }

/**
 * Answers what the HTTP parser refuses (RFC 9112 §2.2, §3, §6.3): one problem body, then the connection is closed. An
 * answer to an earlier request goes out first; where the flaw is in a body whose answer has begun already, closing is
 * all that can be said.
 */
export const answerParserError = (options: UnroutedOptions) => (error: ParserError, socket: Answering) => {
  const current = socket._httpMessage
  if (unspoken.has(error.code) || (current?.headersSent && !current.req.complete)) socket.destroy()
  else inTurn(socket, () => close(socket, rawAnswer(problemOf(error), socket, options), options))
}

/**
 * Takes what Node.js keeps from the routes: CONNECT is answered (501, RFC 9110 §9.3.6), and a request with an Expect
 * header that asks for anything but 100-continue is a request like all others, for `acceptable` to refuse.
 */
export function answerUnrouted(server: Server, options: UnroutedOptions): void {
  lingerOnClose(server, options)
  server.on('connect', (_request, socket: Answering) => {
    inTurn(socket, () => close(socket, rawAnswer(noTunnel, socket, options), options))
  })
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
}

/** After these there is nobody to answer, or no TLS to answer through. */
const unspoken = new Set<string | undefined>(['ECONNRESET', 'ERR_TLS_HANDSHAKE_TIMEOUT'])

/** Waits for the answers to the requests before: on one connection they go out in order (RFC 9112 §9.3.2). */
function inTurn(socket: Answering, act: () => void): void {
  const current = socket._httpMessage
  if (current?.req.complete) {
    socket.pause()
    current.once('close', () => setImmediate(inTurn, socket, act))
  } else act()
}

function problemOf({ code, rawPacket, bytesParsed = 0 }: ParserError): Problem {
  const bytes = Buffer.isBuffer(rawPacket) ? rawPacket : Buffer.alloc(0)
  // The line it came to, as others may be in front of it.
  const from = bytes.lastIndexOf('\n', Math.max(bytesParsed - 1, 0)) + 1
  const start = bytes.toString('latin1', from, from + 2 * urlLimitCharacters)
  if (code === 'HPE_HEADER_OVERFLOW') return longTarget.test(start) ? tooLong : tooLarge
  if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW') return tooManyExtensions
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return tooLate
  return code === 'HPE_INVALID_METHOD' && requestLine.test(start) ? unknownMethod : malformed
}

const longTarget = new RegExp(`^[A-Z]+ [^ \\r\\n]{${urlLimitCharacters + 1}}`)
/** A method of letters, as against what is no HTTP at all. */
const requestLine = /^[A-Za-z-]{1,40} \/[^ \r\n]* HTTP\/1\.[01]\r\n/

/** An answer made past the framework. */
function rawAnswer(problem: Problem, socket: Socket, { baseUrl, now }: ErrorsOptions) {
  const common = { requestId: randomUUID(), timestamp: new Date(now()).toISOString() }
  const body = JSON.stringify(problemBody(problem, baseUrl, common))
  const { 'strict-transport-security': hsts, ...hardening } = securityHeaders
  const headers = {
    // Said over HTTPS only (RFC 6797 §7.2); a proxy in front of us says it by itself.
    ...((socket as TLSSocket).encrypted && { 'strict-transport-security': hsts }),
    ...hardening,
    'content-type': 'application/problem+json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
    'x-error-code': problem.code,
    'x-request-id': common.requestId,
    connection: 'close',
  }
  return { status: problem.status, headers, body }
}

/** Writes the last answer of a connection and closes it, whether or not the client does. */
function close(socket: Socket, { status, headers, body }: ReturnType<typeof rawAnswer>, options: LingerOptions): void {
  // Answered already: what was said is still on its way.
  if (!socket.writable) {
    socket.destroySoon()
    return
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.write(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`)
  linger(socket, options)
}
