import { randomUUID } from 'node:crypto'
import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { ConnectionError } from 'fastify'
import type { ErrorsOptions } from './errors.ts'
import { problemBody } from './errors.ts'
import { securityHeaders } from './https.ts'
import { Problem } from './problem.ts'

const urlLimitCharacters = 8_192

const malformed = new Problem('INVALID_INPUT', 'This is not a well-formed HTTP/1.1 request')
const unknownMethod = new Problem('NOT_IMPLEMENTED', 'The service knows no such method')
const noTunnel = new Problem('NOT_IMPLEMENTED', 'The service is no proxy: it makes no tunnels')
const tooLong = new Problem('URI_TOO_LONG', `The request target may have ${urlLimitCharacters} characters`)
const tooLarge = new Problem('HEADERS_TOO_LARGE', 'The request line and headers may have 16 KiB together')
const tooLate = new Problem('REQUEST_TIMEOUT', 'The request did not arrive in time')
const expected = new Problem('EXPECTATION_FAILED', 'The only expectation that can be met is 100-continue')

/** `rawPacket` is a buffer of the bytes that the parser was given last, where it was the parser that refused. */
type ParserError = Pick<ConnectionError, 'code'> & { rawPacket?: unknown }

/** A socket with the answer that is being sent on it, which Node.js keeps there. */
type Answering = Socket & { _httpMessage?: (ServerResponse & { req: IncomingMessage }) | null }

/**
 * Answers what the HTTP parser refuses (RFC 9112 §2.2, §3, §6.3): one problem body, then the connection is closed. An
 * answer to an earlier request goes out first; where one has begun already, closing is all that can be said.
 */
export const answerParserError = (options: ErrorsOptions) =>
  function onClientError(error: ParserError, socket: Answering): void {
    const current = socket._httpMessage
    if (error.code === 'ECONNRESET' || !socket.writable) socket.destroy()
    else if (!current) answer(problemOf(error), socket, options)
    // The flaw is in this request's own body: nothing better will answer it.
    else if (!current.req.complete && !current.headersSent) answer(problemOf(error), socket, options)
    else if (!current.req.complete) socket.destroy()
    else {
      socket.pause()
      current.once('close', () => setImmediate(() => onClientError(error, socket)))
    }
  }

/**
 * Answers what Node.js keeps from the routes: CONNECT (501, RFC 9110 §9.3.6) and an Expect header that asks for
 * anything but 100-continue (417, §10.1.1).
 */
export function answerUnrouted(server: Server, options: ErrorsOptions): void {
  server.on('connect', (_request, socket: Socket) => answer(noTunnel, socket, options))
  server.on('checkExpectation', ({ socket }: IncomingMessage) => answer(expected, socket, options))
}

function problemOf({ code, rawPacket }: ParserError): Problem {
  const start = Buffer.isBuffer(rawPacket) ? rawPacket.toString('latin1', 0, 2 * urlLimitCharacters) : ''
  if (code === 'HPE_HEADER_OVERFLOW') return longTarget.test(start) ? tooLong : tooLarge
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return tooLate
  return code === 'HPE_INVALID_METHOD' && requestLine.test(start) ? unknownMethod : malformed
}

const longTarget = new RegExp(`^[A-Z]+ [^ \\r\\n]{${urlLimitCharacters + 1}}`)
/** A method of letters, as against what is no HTTP at all. */
const requestLine = /^[A-Za-z-]{1,40} \/[^ \r\n]* HTTP\/1\.[01]\r\n/

/** Writes an answer past the framework and closes the connection; the socket swallows what is still to come. */
function answer(problem: Problem, socket: Socket, { baseUrl, now }: ErrorsOptions): void {
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
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}\r\n${lines.join('')}\r\n${body}`)
}
