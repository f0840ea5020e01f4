import { type IncomingMessage, METHODS, type ServerResponse } from 'node:http'
import {
  constants,
  createServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from 'node:http2'
import type { TLSSocket, Server as TlsServer } from 'node:tls'
import { maxUrlLength } from '../policies/request-integrity.ts'
import type { ErrorsOptions } from '../problems/error-handler.ts'
import type { Problem } from '../problems/problem.ts'
import { type Drain, isHttp2 } from './draining.ts'
import type { LingerOptions } from './lingering-close.ts'
import { malformed, noTunnel, rawResponse, tooLarge, tooLate, tooLong, unknownMethod } from './parser-errors.ts'
import { headersLimitBytes, type Patience } from './server-options.ts'

type Requested = (request: IncomingMessage, response: ServerResponse) => void

export interface Http2Options extends Pick<ErrorsOptions, 'baseUrl' | 'now'>, LingerOptions {
  /** Handles a request in the form of HTTP/1.1. */
  handle: Requested
  patience: Pick<Patience, 'headersTimeout' | 'requestTimeout' | 'keepAliveTimeout'>
  /** How long a client may accept no byte of a response, in ms. */
  stalledMs?: number
}

/** The highest stream id: GOAWAY with it announces the end, but excludes no request (RFC 9113 §6.8). */
const everyStream = 2 ** 31 - 1

const serverSettings = {
  settings: { maxConcurrentStreams: 100, maxHeaderListSize: 4 * headersLimitBytes },
  // More than the service allows, so that the response to such a request is the same problem as over HTTP/1.1.
  maxHeaderListPairs: 256,
  // Of streams that the client resets (CVE-2023-44487): a connection that exceeds them is closed.
  ...{ streamResetBurst: 200, streamResetRate: 20 },
  ...{ maxSessionInvalidFrames: 100, maxSessionRejectedStreams: 100 },
}

/**
 * Serves the connections of an HTTPS server that have agreed on HTTP/2 (RFC 9113); all others stay HTTP/1.1. Call it before
 * the server listens. Returns the functions that stop these connections.
 */
export function serveHttp2(server: TlsServer, options: Http2Options): Drain {
  const http2 = createServer(serverSettings)
  const sessions = new Set<ServerHttp2Session>()
  let state: 'open' | 'draining' | 'closed' = 'open'
  http2.on('session', (session) => {
    sessions.add(session)
    session.once('close', () => sessions.delete(session))
    limitIdleTime(session, options.patience)
    if (state === 'closed') session.close()
    session.once('stream', () => {
      if (state === 'draining') announceEnd(session)
    })
  })
  // A client's violation of the protocol ends its session, and is no fault of the service.
  http2.on('sessionError', () => {})
  http2.on('request', requestHandler(options))
  http2.on('checkExpectation', requestHandler(options))
  http2.on('connect', (request, response) => respond(noTunnel, request, response, options))
  divert(server, (socket) => http2.emit('connection', socket))
  return {
    begin: () => {
      state = 'draining'
      for (const session of sessions) announceEnd(session)
    },
    finish: async () => {
      state = 'closed'
      for (const session of sessions) session.close()
    },
    cut: () => {
      for (const session of sessions) session.destroy()
    },
  }
}

/** Passes connections with HTTP/2 to `accept` instead of the present listeners. */
function divert(server: TlsServer, accept: (socket: TLSSocket) => void): void {
  const listeners = server.listeners('secureConnection')
  server.removeAllListeners('secureConnection').on('secureConnection', (socket) => {
    if (isHttp2(socket)) accept(socket)
    else for (const listener of listeners) listener.call(server, socket)
  })
}

/** Tells the client to send further requests on another connection. Requests that are on their way are still handled. */
function announceEnd(session: ServerHttp2Session): void {
  if (!session.destroyed && !session.closed) session.goaway(constants.NGHTTP2_NO_ERROR, everyStream)
}

/** Closes a connection without requests: after the header timeout if it never had one, else after the keep-alive time. */
function limitIdleTime(session: ServerHttp2Session, { headersTimeout, keepAliveTimeout }: Http2Options['patience']) {
  let open = 0
  let isUsed = false
  session.setTimeout(headersTimeout, () => {
    if (open === 0) isUsed ? session.close() : session.destroy()
  })
  session.on('stream', (stream) => {
    open++
    if (!isUsed) session.setTimeout(keepAliveTimeout)
    isUsed = true
    stream.once('close', () => open--)
  })
}

/** Returns a listener that passes on a request in the form of HTTP/1.1, or responds as the parser of HTTP/1.1 does. */
function requestHandler(options: Http2Options) {
  const { handle } = options
  return (request: Http2ServerRequest, response: Http2ServerResponse): void => {
    limitTime(request, response, options)
    const problem = flawOf(request)
    if (problem) respond(problem, request, response, options)
    else handle(request as unknown as IncomingMessage, response as unknown as ServerResponse)
  }
}

const methods = new Set(METHODS)

/** Replaces the pseudo-header fields by their counterparts in HTTP/1.1; returns the problem with a request, if any. */
function flawOf(request: Http2ServerRequest): Problem | undefined {
  const { headers, rawHeaders, url, method } = request
  const authority = headers[':authority']
  if (authority !== undefined && headers.host !== undefined && headers.host !== authority) return malformed
  const fields = fieldsOf(rawHeaders)
  if (authority !== undefined && headers.host === undefined) {
    headers.host = authority
    fields.push('host', authority)
  }
  rawHeaders.splice(0, rawHeaders.length, ...fields)
  if (fields.reduce((bytes, text) => bytes + text.length + 2, method.length + url.length) > headersLimitBytes)
    return url.length > maxUrlLength ? tooLong : tooLarge
  return methods.has(method) ? undefined : unknownMethod
}

/** Returns the names and values of a request's fields, without the pseudo-header fields. */
const fieldsOf = (raw: readonly string[]) => raw.filter((_, at) => !raw[at - (at % 2)]?.startsWith(':'))

/** Ends a request whose body does not arrive in time, and a response that the client does not read. */
function limitTime(request: Http2ServerRequest, response: Http2ServerResponse, options: Http2Options): void {
  const { stream } = request
  stream.setTimeout(options.stalledMs ?? 30_000, () => {
    if (stream.writableLength > 0) stream.close(constants.NGHTTP2_CANCEL)
  })
  if (stream.endAfterHeaders) return
  const cancel = options.later(options.patience.requestTimeout, () => {
    if (response.headersSent) stream.close(constants.NGHTTP2_CANCEL)
    else respond(tooLate, request, response, options)
  })
  request.once('end', cancel)
  stream.once('close', cancel)
}

/** How long a client may take to read a response after which nothing more of its request is read. */
const lastReadMs = 2_000

/** Responds without Fastify, and reads no more of the request. */
function respond(
  problem: Problem,
  { stream }: Http2ServerRequest,
  response: Http2ServerResponse,
  options: Http2Options,
): void {
  const { status, headers, body } = rawResponse(problem, true, options)
  response.writeHead(status, headers).end(body)
  // Some clients discard a response that they have not read yet when the stream is reset.
  const cancel = options.later(lastReadMs, () => stream.close(constants.NGHTTP2_NO_ERROR))
  stream.once('close', cancel)
}
