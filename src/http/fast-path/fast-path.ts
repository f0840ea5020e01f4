import type { IncomingMessage, ServerResponse } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { traceIdOf, traceOf } from '../headers/trace-context.ts'
import type { ReadApiKey, Verify } from '../policies/authenticate.ts'
import { freshnessLines } from '../policies/caching.ts'
import type { LoadShedder } from '../policies/overload.ts'
import type { AccessLine, WriteAccessLine } from '../server/access-log.ts'
import { canSendWhole, HeadedResponse } from '../server/raw-headers.ts'
import { requestIdFrom } from '../server/request-id.ts'
import { bytesOf, type CachedResponse, latin1Body, linesOf } from './cached-response.ts'
import { type Decision, decisionFor } from './decision.ts'
import { type AdmitLater, rememberResponse } from './record.ts'
import { isSameCaller, type RememberedHead, type RememberedHeads, rememberedHeads } from './remembered-heads.ts'
import { dateLines } from './response-template.ts'

export interface FastPathOptions {
  verify: Verify
  /** Looks up API keys. If omitted, API keys are disabled. */
  readApiKey?: ReadApiKey | undefined
  /** Counts requests against the limits. If omitted, nothing is limited. */
  admitLater?: AdmitLater | null | undefined
  /** Decides which requests are shed because of load. If omitted, none are. */
  shedder?: Pick<LoadShedder, 'isShed'> | undefined
  /** Writes the access log line. */
  write: WriteAccessLine
  now: () => number
}

interface Answered {
  request: FastifyRequest
  reply: FastifyReply
}

/**
 * Sends a response and returns true, or does nothing and returns false. `arrivedAt` is in ms on the monotonic clock.
 */
type Send = (request: IncomingMessage, response: HeadedResponse, arrivedAt: number) => boolean

/**
 * Sends cached responses to GET requests without running Fastify. Most decisions of the policies depend only on the
 * request head. They are remembered and applied to later requests with the same head, as long as the token is valid.
 * Each request is still checked for load, limits, and whether the cached response is current. All other requests are
 * left to the policies.
 */
export const fastPath = fastifyPlugin<FastPathOptions>(
  async (app, options) => {
    if (!canSendWhole) return
    const { verify, readApiKey, now, admitLater } = options
    const heads = rememberedHeads()
    const send = sender(heads, options)
    const recording = {
      verify,
      readApiKey,
      heads,
      fresh: freshnessLines(now),
      admitLater: admitLater ?? (() => () => ''),
    }
    let isClosing = false
    let answered: Answered | null = null
    app.addHook('onSend', (request, reply, payload, done) => {
      answered = { request, reply }
      done(null, payload)
    })
    app.addHook('preClose', async () => {
      isClosing = true
    })
    const handlers = app.server.listeners('request')
    const handle = (request: IncomingMessage, response: ServerResponse): Answered | null => {
      answered = null
      for (const handler of handlers) handler.call(app.server, request, response)
      return answered
    }
    app.server.removeAllListeners('request').on('request', (request, response) => {
      const arrivedAt = performance.now()
      const isPlain = !isClosing && isPlainGet(request, response)
      if (isPlain && send(request, response as HeadedResponse, arrivedAt)) return
      const done = handle(request, response)
      // If the response has not been sent yet, it may have been delayed, so it is not recorded.
      if (isPlain && done?.request.raw === request && response.headersSent)
        rememberResponse(done.request, done.reply, recording)
    })
  },
  { name: 'fastPath', dependencies: ['accessLog', 'compression'] },
)

/** Returns whether a request is a GET whose response can be sent now, on a connection that stays open. */
const isPlainGet = (request: IncomingMessage, response: ServerResponse): boolean =>
  request.method === 'GET' &&
  request.httpVersionMinor === 1 &&
  request.httpVersionMajor === 1 &&
  response.shouldKeepAlive &&
  // With pipelining, responses to earlier requests must be sent first, and one of them may close the connection.
  response.socket !== null &&
  response instanceof HeadedResponse

/**
 * Returns the function that responds to a request: it checks the request, counts it against the limits, logs it, and
 * sends the response.
 */
function sender(heads: RememberedHeads, { shedder, write, now }: FastPathOptions): Send {
  const fresh = freshnessLines(now)
  const dateLine = dateLines()
  return (request, response, arrivedAt) => {
    const url = request.url as string
    const head = heads.find(request)
    const decision = head && decisionFor(head, url)
    if (!decision || shedder?.isShed(decision.shed) || !isSameCaller(head)) return false
    const cached = currentOf(decision, url)
    const status = cached && statusOf(head, decision, cached, request)
    if (!status) return false
    const limits = decision.admit()
    if (limits === null) return false
    const requestId = requestIdFrom(head.requestIdAt < 0 ? undefined : request.rawHeaders[head.requestIdAt])
    const { start, afterId, freshness, afterFreshness, afterDate } = decision.template
    const first = start + requestId + afterId + limits + (freshness === null ? '' : fresh(freshness)) + afterFreshness
    const section = first + linesOf(cached, status) + dateLine() + afterDate
    const bytes = status === 304 ? 0 : bytesOf(cached)
    write(accessLine(decision, { requestId, url, status, bytes, traceId: traceIdIn(head, request) }, arrivedAt))
    endBody(request)
    response.sendWhole(status, status === 304 ? section : section + latin1Body(cached))
    return true
  }
}

/** The private IncomingMessage method of the server option `optimizeEmptyRequests` (Node.js 24.12). */
interface Dumped {
  _dumpAndCloseReadable?: () => void
}

/**
 * Ends the body of a request, which is empty and which nobody reads. Otherwise, Node.js reads it to its end and emits the
 * events of a stream, which takes a tenth of the time of a response. The server option would do the same to requests that
 * are left to the policies, which then wait for the end of an empty body and do not notice that a client has disconnected.
 */
function endBody(request: IncomingMessage): void {
  ;(request as IncomingMessage & Dumped)._dumpAndCloseReadable?.()
}

/** Returns the current cached response for a target. */
function currentOf({ cached, path }: Decision, target: string): CachedResponse | undefined {
  try {
    return cached.find(target, path.length)
  } catch {
    // The policies will get the same error, such as a database error, and report it.
    return undefined
  }
}

/** Returns the status to respond with; null if the policies must respond. */
function statusOf(
  { noneMatchAt }: RememberedHead,
  { maxBytes }: Decision,
  cached: CachedResponse,
  { rawHeaders }: IncomingMessage,
): 200 | 304 | null {
  if (noneMatchAt < 0) return bytesOf(cached) > maxBytes ? null : 200
  return rawHeaders[noneMatchAt] === cached.etag ? 304 : null
}

/** Returns the trace id of a request; undefined without a valid trace context. */
function traceIdIn({ traceAt }: RememberedHead, { rawHeaders }: IncomingMessage): string | undefined {
  if (traceAt < 0) return undefined
  const trace = traceOf({ traceparent: rawHeaders[traceAt] as string })
  return trace === null ? undefined : traceIdOf(trace)
}

interface Sent {
  requestId: string
  url: string
  status: number
  bytes: number
  traceId: string | undefined
}

const accessLine = ({ path, cached, line }: Decision, sent: Sent, arrivedAt: number): AccessLine => ({
  requestId: sent.requestId,
  method: 'GET',
  path: cached.by === 'target' ? path : sent.url,
  route: line.route,
  status: sent.status,
  ms: Math.round((performance.now() - arrivedAt) * 100) / 100,
  bytes: sent.bytes,
  address: line.address,
  client: line.client,
  subject: line.subject,
  errorCode: undefined,
  traceId: sent.traceId,
})
