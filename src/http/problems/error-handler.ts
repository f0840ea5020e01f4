import type { IncomingMessage } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { acceptsExactly, quality } from '../headers/accept.ts'
import { traceIdOf } from '../headers/trace-context.ts'
import { addVary } from '../headers/vary.ts'
import { setRawHeaderLines } from '../server/raw-headers.ts'
import { fromFramework } from './framework-errors.ts'
import { Problem, type ProblemCode, problems, problemUrl } from './problem.ts'

export interface ErrorsOptions {
  baseUrl: string
  /** Returns true if the store is temporarily unavailable, in which case the response is 503 instead of 500. */
  isUnavailable: (error: unknown) => boolean
  /** Called for each error that results in a 5xx response, with the cause of a `Problem` or, if none, the error. */
  onFault: (error: unknown, requestId: string, traceId?: string) => void
  /** Called for each request that fails with ACCESS_DENIED or PERMISSION_DENIED. */
  onDenied?: (request: FastifyRequest, problem: Problem) => void
  now: () => number
}

const retrySeconds = '2'
const denials: ProblemCode[] = ['ACCESS_DENIED', 'PERMISSION_DENIED']

/**
 * Converts every thrown error to an error body in one of three formats: one for rate-limit and quota errors, and two
 * for all other errors, selected by Accept.
 */
export const errorHandler = fastifyPlugin<ErrorsOptions>(
  async (app, options) => {
    app.setErrorHandler((error, request, reply) => {
      const problem = toProblem(error, options)
      if (problem.status >= 500) options.onFault(problem.cause ?? error, request.id, tracedBy(request))
      if (denials.includes(problem.code)) options.onDenied?.(request, problem)
      return render(problem, request, reply, options)
    })
  },
  { name: 'errorHandler' },
)

const tracedBy = ({ trace }: FastifyRequest) => (trace ? traceIdOf(trace) : undefined)

/** Converts any thrown value to a problem that is safe to send. */
export function toProblem(error: unknown, { isUnavailable }: Pick<ErrorsOptions, 'isUnavailable'>): Problem {
  if (error instanceof Problem) return error
  if (isUnavailable(error)) {
    const headers = { 'retry-after': retrySeconds }
    return new Problem('SERVICE_UNAVAILABLE', 'The data store is temporarily unavailable, try again later', {
      headers,
      cause: error,
    })
  }
  return (
    fromFramework(error) ?? new Problem('INTERNAL_ERROR', 'The error was logged with this request id', { cause: error })
  )
}

/**
 * Returns true if the client prefers plain JSON errors: Accept lists application/json and gives it a higher weight than
 * problem+json.
 */
export function prefersCodeForm(accept: string | undefined): boolean {
  if (accept === undefined || !acceptsExactly(accept, 'application/json')) return false
  return quality(accept, 'application/problem+json') < quality(accept, 'application/json')
}

/** Sends a problem in the error format that the client prefers; rate-limit and quota errors have only one format. */
export function render(
  problem: Problem,
  request: FastifyRequest,
  reply: FastifyReply,
  { baseUrl, now }: ErrorsOptions,
) {
  const isLimit = problem.code === 'RATE_LIMIT_EXCEEDED' || problem.code === 'QUOTA_EXCEEDED'
  const codeForm = isLimit || prefersCodeForm(request.headers.accept)
  const common = { requestId: request.id, timestamp: new Date(now()).toISOString() }
  setConnection(request.raw, reply)
  // Removes the caching headers of the response that this error replaces.
  setRawHeaderLines(reply, 'caching', '')
  reply
    .code(problem.status)
    .headers({ 'cache-control': 'no-store', 'x-error-code': problem.code, ...problem.headers })
    .header('content-type', codeForm ? 'application/json; charset=utf-8' : 'application/problem+json; charset=utf-8')
    .serializer(JSON.stringify)
  addVary(reply, 'Accept')
  // HTTP/2 has no Connection field, and does not close a connection because of a single request (RFC 9113 §8.2.2).
  if (request.raw.httpVersionMajor === 2) reply.removeHeader('connection')
  for (const name of ['etag', 'last-modified', 'expires']) reply.removeHeader(name)
  if (isLimit) return reply.send({ error: problem.message })
  return reply.send(codeForm ? codeBody(problem, request, common) : problemBody(problem, baseUrl, common))
}

const maxDrainBytes = 1_048_576

/**
 * Closes the connection if the rest of an unread body could take a long time to arrive (RFC 9112 §9.6). Otherwise
 * discards the rest and keeps the connection open for the next request, unless Node.js is already closing it; Fastify
 * would close it after every body that it cannot parse.
 */
function setConnection(request: IncomingMessage, reply: FastifyReply): void {
  const { raw } = reply
  const { complete, headers } = request
  const isLong = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > maxDrainBytes
  // Node.js itself discards a body only if none of it has been read.
  if (!complete && !isLong) raw.once('finish', () => request.resume())
  if (!complete && isLong) reply.header('connection', 'close')
  else if (raw.shouldKeepAlive && reply.hasHeader('connection') && !raw.hasHeader('connection')) {
    reply.removeHeader('connection')
  }
}

interface Common {
  requestId: string
  timestamp: string
}

/** Returns the problem details (RFC 9457). */
export function problemBody({ code, status, message, errors }: Problem, baseUrl: string, common: Common) {
  return {
    type: problemUrl(baseUrl, code),
    title: problems[code][1],
    status,
    detail: message,
    instance: `urn:request:${common.requestId}`,
    errorCode: code,
    ...common,
    ...(errors && { errors }),
  }
}

function codeBody({ code, message, errors }: Problem, request: FastifyRequest, common: Common) {
  const details = errors?.map(({ field, message }) => ({ field, issue: message }))
  return { errorCode: code, message, ...(details && { details }), path: request.url.split('?', 1)[0], ...common }
}
