import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { acquireSlot } from '../../files/slots.ts'
import { quality } from '../../http/headers/accept.ts'
import { networkOf } from '../../http/headers/client-address.ts'
import { bearerToken } from '../../http/policies/authenticate.ts'
import { Problem } from '../../http/problems/problem.ts'
import { routeConfig } from '../../http/route-config.ts'
import { responseEnd } from '../../http/server/response-end.ts'
import type { StreamEvent, StreamView } from './channels.ts'
import type { ChangeFeed, FeedMember } from './feed-member.ts'
import type { Judge, JudgeNow } from './judge.ts'
import { boundedOutput, type StreamOutput } from './output.ts'
import { type Change, eventIdOf, type Facts } from './subscribers.ts'

/** The rows that a stream contains, and their representation. */
export interface StreamSource {
  noun: string
  judge: JudgeNow
  /** Returns the JSON text of a row. */
  represent: (row: Facts) => string
  /** Streams with the same shape share the text of each event; null if its text cannot be shared. */
  shape: string | null
  /** True if the stream ends when its row is removed. */
  isSingle: boolean
}

const reconnectMs = 2_000
/** Every third check sends a heartbeat; checks run every five seconds. */
const checksPerHeartbeat = 3

const streamType = 'text/event-stream'

/** Returns true if a request prefers an event stream to JSON. */
export function wantsStream({ headers: { accept } }: FastifyRequest): boolean {
  if (accept === undefined || !/event-stream|text\/\*/i.test(accept)) return false
  return quality(accept, streamType) > quality(accept, 'application/json')
}

/**
 * Sends the changes of rows as Server-Sent Events (HTML Living Standard §9.2). Ends the stream if the caller loses
 * access or the service stops. Throws RATE_LIMIT_EXCEEDED if the account has too many open streams, or
 * SERVICE_UNAVAILABLE if this process has too many.
 */
export async function sendStream(
  feed: ChangeFeed,
  source: StreamSource,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const judge = await source.judge(request)
  // `x-accel-buffering` prevents proxies such as nginx from buffering the events.
  const headers = { 'content-type': streamType, 'cache-control': 'no-store', 'x-accel-buffering': 'no' }
  if (request.method === 'HEAD') return reply.headers(headers).send(Readable.from([]))
  const end = responseEnd(reply)
  acquireSlot(feed.slots, accountOf(request), end, 'event streams')
  const lastEventId = request.headers['last-event-id']
  const start = await feed.start(source.noun, typeof lastEventId === 'string' ? lastEventId : undefined)
  const output = boundedOutput(reply, end)
  output.send(`retry: ${reconnectMs}\nid: ${eventIdOf(start)}\n\n`)
  const member = memberOf({ feed, source, request, output }, judge)
  if (start.isReset) member.reset(eventIdOf(start))
  feed.join(member, start.at).catch(member.fail)
  return reply.headers(headers).send(output.content)
}

function accountOf({ caller, ip }: FastifyRequest) {
  return caller && 'caller' in caller ? caller.caller : { clientId: '', subject: networkOf(ip) }
}

interface Opening {
  feed: ChangeFeed
  source: StreamSource
  request: FastifyRequest
  output: StreamOutput
}

/** Creates the feed member for a stream. */
function memberOf({ feed, source, request, output }: Opening, first: Judge): FeedMember {
  let judge = first
  let checks = 0
  const recheck = async (eventId: string | null) => {
    const next = (await mayContinue(feed, request)) ? await source.judge(request) : null
    if (next === null) return output.finish()
    if (next.key === judge.key) return
    judge = next
    feed.move(member)
    member.reset(eventId)
  }
  const fail = (error: unknown) => {
    feed.onError(error)
    output.finish()
  }
  const position = (eventId: string | null) => (eventId === null ? '' : `id: ${eventId}\n`)
  const member: FeedMember = {
    ...{ view: () => viewOf(source, judge), send: output.send, end: output.finish, fail },
    ...{ ended: output.ended, drained: output.drained, joined: output.bound },
    check: async (eventId) => {
      if (++checks % checksPerHeartbeat === 0) output.send(`: heartbeat\n${position(eventId)}\n`)
      await recheck(eventId).catch((error) => (error instanceof Problem ? output.finish() : fail(error)))
    },
    reset: (eventId) => output.send(`${position(eventId)}event: reset\ndata: {}\n\n`),
    stop: (retryMs) => {
      output.send(`retry: ${retryMs}\n\n`)
      output.finish()
    },
  }
  return member
}

/** Streams with the same representation share a channel if their judges make the same decisions. */
const viewOf = (source: StreamSource, judge: Judge): StreamView => ({
  ...{ noun: source.noun, only: judge.only },
  key: source.shape === null ? null : JSON.stringify([source.shape, judge.key]),
  eventFor: (change) => eventFor(change, judge, source),
})

/** Verifies a stream's token again and updates the request's caller. Returns false if the stream must end. */
async function mayContinue(feed: ChangeFeed, request: FastifyRequest): Promise<boolean> {
  const token = bearerToken(request.headers)
  if (token === undefined) return true
  const verified = await feed.verify(token)
  if ('refused' in verified) return false
  request.caller = verified
  const { scope } = routeConfig(request)
  return scope === 'public' || scope === 'any' || verified.caller.scopes.has(String(scope))
}

/** Returns the event for a change; null if the change does not concern the stream. */
function eventFor(change: Change, judge: Judge, source: StreamSource): StreamEvent | null {
  const { eventId, after, texts } = change
  const { represent, shape, isSingle } = source
  if (after !== null && judge.contains(after)) {
    const known = shape === null ? undefined : texts.get(shape)
    const text = known ?? `id: ${eventId}\nevent: ${change.change}\ndata: ${represent(after)}\n\n`
    if (shape !== null) texts.set(shape, text)
    return { text, isLast: false }
  }
  const { before } = change
  // If the row before the update is unknown, `removed` may name a row that was never in the stream, but only one that
  // the caller can read.
  const isUnknown = change.change === 'updated' && before === null
  const wasContained = before === null ? isUnknown && after !== null && judge.isReadable(after) : judge.contains(before)
  if (!wasContained) return null
  const data = JSON.stringify({ id: (after ?? before)?.id })
  return { text: `id: ${eventId}\nevent: removed\ndata: ${data}\n\n`, isLast: isSingle }
}
