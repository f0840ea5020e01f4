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
import { bodyOf, bytesOf, type CachedResponse, linesOf } from './cached-response.ts'
import { type Decision, decisionFor } from './decision.ts'
import { type AdmitLater, record } from './record.ts'
import { isSameCaller, type RememberedHead, type RememberedHeads, rememberedHeads } from './remembered-heads.ts'
import { dateLines } from './response-template.ts'

export interface FastPathOptions {
  verify: Verify
  /** If omitted, API keys are disabled. */
  readApiKey?: ReadApiKey | undefined
  /** If omitted, nothing is limited. */
  admitLater?: AdmitLater | null | undefined
  /** If omitted, no request is shed because of load. */
  shedder?: Pick<LoadShedder, 'isShed'> | undefined
  /** Writes the access log line. */
  write: WriteAccessLine
  now: () => number
}

interface Answered {
  request: FastifyRequest
  reply: FastifyReply
}

/** Sends the response to a request that arrived at this time (ms, monotonic); returns false if it did nothing. */
type Send = (request: IncomingMessage, response: HeadedResponse, arrivedAt: number) => boolean

/**
 * Sends cached responses to GET requests without Fastify. What the policies decide about a request depends mostly on its
 * head, so the decision about an earlier request with the same head applies again while its token is valid. Load, limits,
 * and whether the cached response is current are checked for each request. Everything else is left to the policies.
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
      // A response that was sent later may have been delayed.
      if (isPlain && done?.request.raw === request && response.headersSent) record(done.request, done.reply, recording)
    })
  },
  { name: 'fastPath', dependencies: ['accessLog', 'compression'] },
)

/** Returns whether a request is a GET whose response is the next on a connection that stays open. */
const isPlainGet = (request: IncomingMessage, response: ServerResponse): boolean =>
  request.method === 'GET' &&
  request.httpVersionMinor === 1 &&
  request.httpVersionMajor === 1 &&
  response.shouldKeepAlive &&
  // With pipelining, earlier responses are sent first, and one of them may close the connection.
  response.socket !== null &&
  response instanceof HeadedResponse

/** Returns the function that checks a request, counts it against the limits, logs it and sends the response. */
function sender(heads: RememberedHeads, { shedder, write, now }: FastPathOptions): Send {
  const fresh = freshnessLines(now)
  // Like the Date header of Node.js, which does not use the clock of the service.
  const dateLine = dateLines(Date.now)
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
    response.sendWhole(status, status === 304 ? section : section + bodyOf(cached))
    return true
  }
}

/** Returns the current cached response for a target. */
function currentOf({ cached, path }: Decision, target: string): CachedResponse | undefined {
  try {
    return cached.find(target, path.length)
  } catch {
    // The policies meet the same error, such as one of the database, and report it.
    return undefined
  }
}

/** Returns the status of the response; null if the policies must respond. */
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
