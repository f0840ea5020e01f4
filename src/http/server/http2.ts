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
import { headersLimitBytes, type ServerTimeouts } from './server-options.ts'

type Requested = (request: IncomingMessage, response: ServerResponse) => void

export interface Http2Options extends Pick<ErrorsOptions, 'baseUrl' | 'now'>, LingerOptions {
  /** The request listener, which also handles HTTP/1.1 requests. */
  handle: Requested
  timeouts: Pick<ServerTimeouts, 'headersTimeout' | 'requestTimeout' | 'keepAliveTimeout'>
  /** How long a client may go without reading any part of a response, in ms. */
  stalledMs?: number
}

/**
 * The highest stream id. GOAWAY with this id announces the end of a connection without rejecting any request (RFC 9113
 * §6.8).
 */
const everyStream = 2 ** 31 - 1

const serverSettings = {
  settings: { maxConcurrentStreams: 100, maxHeaderListSize: 4 * headersLimitBytes },
  // Exceeds the service's own limit, so that the service can respond with the same problem as over HTTP/1.1.
  maxHeaderListPairs: 256,
  // Limits for streams that the client resets (CVE-2023-44487). A connection that exceeds them is closed.
  ...{ streamResetBurst: 200, streamResetRate: 20 },
  ...{ maxSessionInvalidFrames: 100, maxSessionRejectedStreams: 100 },
}

/**
 * Serves the connections to an HTTPS server that have negotiated HTTP/2 (RFC 9113); others use HTTP/1.1. Call this
 * before the server listens. Returns the functions that stop these connections.
 */
export function serveHttp2(server: TlsServer, options: Http2Options): Drain {
  const http2 = createServer(serverSettings)
  const sessions = new Set<ServerHttp2Session>()
  let state: 'open' | 'draining' | 'closed' = 'open'
  http2.on('session', (session) => {
    sessions.add(session)
    session.once('close', () => sessions.delete(session))
    limitIdleTime(session, options.timeouts)
    if (state === 'closed') session.close()
    session.once('stream', () => {
      if (state === 'draining') announceEnd(session)
    })
  })
  // A protocol violation by the client closes its session; it is not an error of the service.
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

/** Passes HTTP/2 connections to `accept` instead of the existing listeners. */
function divert(server: TlsServer, accept: (socket: TLSSocket) => void): void {
  const listeners = server.listeners('secureConnection')
  server.removeAllListeners('secureConnection').on('secureConnection', (socket) => {
    if (isHttp2(socket)) accept(socket)
    else for (const listener of listeners) listener.call(server, socket)
  })
}

/**
 * Asks the client to send later requests on another connection. Requests that are already on their way are still
 * handled.
 */
function announceEnd(session: ServerHttp2Session): void {
  if (!session.destroyed && !session.closed) session.goaway(constants.NGHTTP2_NO_ERROR, everyStream)
}

/**
 * Closes idle connections: after the header timeout if there has been no request, otherwise after the keep-alive
 * timeout.
 */
function limitIdleTime(session: ServerHttp2Session, { headersTimeout, keepAliveTimeout }: Http2Options['timeouts']) {
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

/**
 * Returns a listener that passes valid requests to `handle`. It rejects other requests as the HTTP/1.1 parser would.
 */
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

/** Converts the request's pseudo-header fields to HTTP/1.1; returns the problem if the request is invalid. */
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

/** Removes the pseudo-header fields from a list of alternating names and values. */
const fieldsOf = (raw: readonly string[]) => raw.filter((_, at) => !raw[at - (at % 2)]?.startsWith(':'))

/** Limits how long the request body may take to arrive, and how long the client may go without reading the response. */
function limitTime(request: Http2ServerRequest, response: Http2ServerResponse, options: Http2Options): void {
  const { stream } = request
  stream.setTimeout(options.stalledMs ?? 30_000, () => {
    if (stream.writableLength > 0) stream.close(constants.NGHTTP2_CANCEL)
  })
  if (stream.endAfterHeaders) return
  const cancel = options.later(options.timeouts.requestTimeout, () => {
    if (response.headersSent) stream.close(constants.NGHTTP2_CANCEL)
    else respond(tooLate, request, response, options)
  })
  request.once('end', cancel)
  stream.once('close', cancel)
}

/** How long a client may take to read the response to a rejected request before the stream is closed. */
const lastReadMs = 2_000

/** Responds without Fastify and without reading the rest of the request. */
function respond(
  problem: Problem,
  { stream }: Http2ServerRequest,
  response: Http2ServerResponse,
  options: Http2Options,
): void {
  const { status, headers, body } = rawResponse(problem, true, options)
  response.writeHead(status, headers).end(body)
  // Delays the reset, because a reset makes some clients discard a response that they have not yet read.
  const cancel = options.later(lastReadMs, () => stream.close(constants.NGHTTP2_NO_ERROR))
  stream.once('close', cancel)
}
