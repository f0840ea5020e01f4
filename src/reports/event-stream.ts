import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { acquireSlot } from '../files/slots.ts'
import { callerOf } from '../http/policies/authenticate.ts'
import { responseEnd } from '../http/server/response-end.ts'
import type { Task } from '../storage/tables/tables.ts'
import { isFinished, taskView } from './tasks.ts'
import type { TaskWatch } from './wait-for-change.ts'

export interface EventsOptions {
  watch?: TaskWatch
  now: () => number
  /** Returns a task's current state; undefined if the task no longer exists. */
  find: (taskId: string) => Promise<Task | undefined>
  /** Maximum silence on a stream before a heartbeat comment, in ms. */
  heartbeatMs?: number
}

const reconnectMs = 2_000
/** Limits how long a stream can outlive the token that opened it; clients reconnect automatically. */
const maxMs = 15 * 60_000

/**
 * Sends a task as Server-Sent Events (HTML Living Standard §9.2): `progress` for each change and, at the end,
 * `completed` or `failed`. Each event contains the task as data and its revision as id. A client that reconnects with
 * Last-Event-ID gets only newer states, or a 204 if it has already received the last one. Throws RATE_LIMIT_EXCEEDED or
 * SERVICE_UNAVAILABLE if the task is unfinished and no slot is free.
 */
export function streamEvents(options: EventsOptions, task: Task, request: FastifyRequest, reply: FastifyReply) {
  const seen = Number(request.headers['last-event-id'] ?? Number.NaN)
  const isHead = request.method === 'HEAD'
  if (isFinished(task) && seen === task.revision) return reply.code(204).send(isHead ? Readable.from([]) : undefined)
  const end = responseEnd(reply)
  const { watch } = options
  if (watch && !isHead && !isFinished(task))
    acquireSlot(watch.slots, callerOf(request), end, 'event streams and waiting requests')
  const stream = Readable.from(isHead ? [] : events(options, task, seen, end))
  // `x-accel-buffering` prevents proxies from buffering the events.
  return reply.headers({ 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' }).send(stream)
}

/**
 * Creates each event only after the previous event has been read: a slow reader misses intermediate states, but never
 * the end.
 */
async function* events(options: EventsOptions, first: Task, seen: number, signal: AbortSignal): AsyncIterable<string> {
  const { watch, now, find, heartbeatMs = 15_000 } = options
  const endMs = now() + maxMs
  let task: Task | undefined = first
  let sent = seen
  yield `retry: ${reconnectMs}\n\n`
  while (task && now() < endMs) {
    const { revision } = task
    yield revision === sent ? ': still here\n\n' : eventOf(task)
    sent = revision
    if (isFinished(task)) return
    const changed = watch?.until(task.id, (state) => state.revision !== revision, heartbeatMs, signal)
    await changed
    if (!changed || signal.aborted) return
    task = await find(task.id)
  }
}

function eventOf(task: Task): string {
  const { revision, sharesSecond: _, updatedAt: __, ...view } = taskView(task)
  const type = isFinished(task) ? task.status : 'progress'
  return `id: ${revision}\nevent: ${type}\ndata: ${JSON.stringify(view)}\n\n`
}
