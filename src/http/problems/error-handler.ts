import type { IncomingMessage } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { parseAccept, quality } from '../headers/accept.ts'
import { addVary } from '../headers/vary.ts'
import { setRawHeaderLines } from '../server/raw-headers.ts'
import { fromFramework } from './framework-errors.ts'
import { Problem, type ProblemCode, problems, problemUrl } from './problem.ts'

export interface ErrorsOptions {
  baseUrl: string
  /** True when an error says that the store cannot take work now: 503 instead of 500. */
  isUnavailable: (error: unknown) => boolean
  /** Receives what a client must not see. */
  onFault: (error: unknown, requestId: string) => void
  /** Is told of each request whose caller is known but not allowed. */
  onDenied?: (request: FastifyRequest, problem: Problem) => void
  now: () => number
}

const retrySeconds = '2'
const denials: ProblemCode[] = ['ACCESS_DENIED', 'PERMISSION_DENIED']

/** Whatever is thrown → one of the three bodies, chosen by Accept; unknown paths and methods too. */
export const errors = fastifyPlugin<ErrorsOptions>(
  async (app, options) => {
    app.setErrorHandler((error, request, reply) => {
      const problem = toProblem(error, options)
      if (problem.status >= 500) options.onFault(problem.cause ?? error, request.id)
      if (denials.includes(problem.code)) options.onDenied?.(request, problem)
      return render(problem, request, reply, options)
    })
  },
  { name: 'errors' },
)

/** Whatever was thrown as a problem that may be shown. */
export function toProblem(error: unknown, { isUnavailable }: Pick<ErrorsOptions, 'isUnavailable'>): Problem {
  if (error instanceof Problem) return error
  if (isUnavailable(error)) {
    const headers = { 'retry-after': retrySeconds }
    return new Problem('SERVICE_UNAVAILABLE', 'The store cannot take the request now, try again', {
      headers,
      cause: error,
    })
  }
  return (
    fromFramework(error) ??
    new Problem('INTERNAL_ERROR', 'The fault was recorded under this request id', { cause: error })
  )
}

/** True when the client prefers the code form: it names application/json and weighs problem+json less. */
export function prefersCodeForm(accept: string | undefined): boolean {
  if (accept === undefined || !parseAccept(accept, 'application/json')) return false
  return quality(accept, 'application/problem+json') < quality(accept, 'application/json')
}

/** One problem as the answer, in the form that Accept prefers. */
export function render(
  problem: Problem,
  request: FastifyRequest,
  reply: FastifyReply,
  { baseUrl, now }: ErrorsOptions,
) {
  const isLimit = problem.code === 'RATE_LIMIT_EXCEEDED' || problem.code === 'QUOTA_EXCEEDED'
  const codeForm = isLimit || prefersCodeForm(request.headers.accept)
  const common = { requestId: request.id, timestamp: new Date(now()).toISOString() }
  leaveConnection(request.raw, reply)
  // What was said of the answer that this one takes the place of.
  setRawHeaderLines(reply, 'caching', '')
  reply
    .code(problem.status)
    .headers({ 'cache-control': 'no-store', 'x-error-code': problem.code, ...problem.headers })
    .header('content-type', codeForm ? 'application/json; charset=utf-8' : 'application/problem+json; charset=utf-8')
    .serializer(JSON.stringify)
  addVary(reply, 'Accept')
  for (const name of ['etag', 'last-modified', 'expires']) reply.removeHeader(name)
  // Limits have a body of their own, one form for all.
  if (isLimit) return reply.send({ error: problem.message })
  return reply.send(codeForm ? codeBody(problem, request, common) : problemBody(problem, baseUrl, common))
}

const maxBytesLeft = 1_048_576

/**
 * A body nobody will read is read past, so that the next request can follow; where that may take long the connection is
 * closed instead (RFC 9112 §9.6). The framework would close it after every body that cannot be parsed. A connection that
 * ends anyway is left alone: Node.js says so by itself.
 */
function leaveConnection({ complete, headers }: IncomingMessage, reply: FastifyReply): void {
  const { raw } = reply
  const isLong = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > maxBytesLeft
  if (!complete && isLong) reply.header('connection', 'close')
  else if (raw.shouldKeepAlive && reply.hasHeader('connection') && !raw.hasHeader('connection')) {
    reply.removeHeader('connection')
  }
}

interface Common {
  requestId: string
  timestamp: string
}

/** Problem details (RFC 9457). */
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
