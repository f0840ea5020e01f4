import { Problem } from '../http/problems/problem.ts'
import type { Rate } from './limit.ts'
import type { Cell } from './threads/cells.ts'

/** The rate at which calls continue after a burst. */
export interface Pace extends Rate {
  burst: number
}

/** When a client's next call would be due, in ms of the monotonic clock. */
interface NextCall {
  get: () => number
  /** Replaces the time if it is still `beforeMs`; returns whether it was. */
  swap: (beforeMs: number, afterMs: number) => boolean
}

/** A client's delay queue: the waiting calls, and when the next call would be due without a burst allowance. */
export interface DelayQueue {
  stepMs: number
  toleranceMs: number
  next: NextCall
  waiting: { dueMs: number; run: () => void }[]
  cancel: (() => void) | null
}

export interface ThrottleOptions {
  /** A monotonic clock, in ms. */
  monotonic: () => number
  /** Runs a callback after `ms`; returns a function that cancels it. */
  later: (ms: number, run: () => void) => () => void
}

/** Maximum delay in ms, and maximum number of waiting calls, per client. */
export const maxWaitMs = 2_000
export const maxWaiting = 100

const msPerCall = ({ calls, seconds }: Rate) => (seconds * 1_000) / calls

/** Returns the interval between two calls in ms. An account with its own rate is never throttled below that rate. */
export const stepOf = (pace: Pace, own: Rate | null): number =>
  own === null ? msPerCall(pace) : Math.min(msPerCall(pace), msPerCall(own))

/** Creates an empty queue. An account with its own rate is never throttled below that rate. */
export function newDelayQueue(pace: Pace, own: Rate | null, cell?: Cell): DelayQueue {
  const toleranceMs = pace.burst * msPerCall(pace)
  const next = cell === undefined ? nextHere() : nextIn(cell)
  return { stepMs: stepOf(pace, own), toleranceMs, next, waiting: [], cancel: null }
}

function nextHere(): NextCall {
  let ms = 0
  return {
    get: () => ms,
    swap: (_beforeMs, afterMs) => {
      ms = afterMs
      return true
    },
  }
}

/** The cell holds whole microseconds. */
const nextIn = ({ load, swap }: Cell): NextCall => ({
  get: () => Number(load()) / 1_000,
  swap: (beforeMs, afterMs) => swap(BigInt(Math.round(beforeMs * 1_000)), BigInt(Math.round(afterMs * 1_000))),
})

/** The result of reserving a slot in the queue. */
export type Reservation = 'free' | 'full' | { dueMs: number }

/**
 * Reserves a slot by the generic cell rate algorithm: after a burst, each call is due one step after the previous call,
 * so calls stay in order. Returns `full`, without changing the queue, if the call would exceed the maximum delay or the
 * maximum number of waiting calls.
 */
export function reserve(queue: DelayQueue, atMs: number): Reservation {
  for (;;) {
    const beforeMs = queue.next.get()
    const nextMs = Math.max(beforeMs, atMs) + queue.stepMs
    const dueMs = nextMs - queue.toleranceMs
    const isDue = dueMs <= atMs && queue.waiting.length === 0
    if (!isDue && (dueMs - atMs > maxWaitMs || queue.waiting.length >= maxWaiting)) return 'full'
    if (queue.next.swap(beforeMs, nextMs)) return isDue ? 'free' : { dueMs }
  }
}

/** Returns whether `reserve` would return `free`. */
export const isFree = ({ next, stepMs, toleranceMs, waiting }: DelayQueue, atMs: number): boolean =>
  waiting.length === 0 && Math.max(next.get(), atMs) + stepMs - toleranceMs <= atMs

/** Runs waiting calls in queue order. `wait` returns a function that removes the call from the queue. */
export function throttle({ monotonic, later }: ThrottleOptions) {
  const queues = new Set<DelayQueue>()
  const drain = (queue: DelayQueue, untilMs: number) => {
    queue.cancel = null
    while (queue.waiting[0] !== undefined && queue.waiting[0].dueMs <= untilMs) queue.waiting.shift()?.run()
    arm(queue)
  }
  const arm = (queue: DelayQueue) => {
    const next = queue.waiting[0]
    if (next === undefined) queues.delete(queue)
    else queue.cancel ??= later(Math.max(1, Math.ceil(next.dueMs - monotonic())), () => drain(queue, monotonic()))
  }
  return {
    wait: (queue: DelayQueue, dueMs: number, run: () => void): (() => void) => {
      const entry = { dueMs, run }
      queue.waiting.push(entry)
      queues.add(queue)
      arm(queue)
      return () => {
        const at = queue.waiting.indexOf(entry)
        if (at >= 0) queue.waiting.splice(at, 1)
      }
    },
    /** Runs all waiting calls immediately, because the service is stopping. */
    release: () => {
      for (const queue of queues) {
        queue.cancel?.()
        drain(queue, Number.POSITIVE_INFINITY)
      }
    },
  }
}

/** Returns the 429 for a call that arrives when the queue is full. */
export const delayQueueFull = () =>
  new Problem('RATE_LIMIT_EXCEEDED', 'Too many requests at once: wait 2 seconds', { headers: { 'retry-after': '2' } })
