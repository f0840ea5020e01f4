import { Problem } from '../http/problems/problem.ts'
import type { Rate } from './limit.ts'

/** How fast calls are let through once a burst was. */
export interface Pace extends Rate {
  burst: number
}

/** Where a client stands: when its next call would be due were there no burst, and who waits. */
export interface DelayQueue {
  stepMs: number
  toleranceMs: number
  nextMs: number
  waiting: { dueMs: number; run: () => void }[]
  cancel: (() => void) | null
}

export interface ThrottleOptions {
  /** Milliseconds of a clock that is never set. */
  monotonic: () => number
  /** Runs something after so many ms; returns how to call it off. */
  later: (ms: number, run: () => void) => () => void
}

/** The longest delay, and how many of one client may wait at once. */
export const maxWaitMs = 2_000
export const maxWaiting = 100

const msPerCall = ({ calls, seconds }: Rate) => (seconds * 1_000) / calls

/** The time between two calls; for one with a rate of its own at most what that allows. */
export const stepOf = (pace: Pace, own: Rate | null): number =>
  own === null ? msPerCall(pace) : Math.min(msPerCall(pace), msPerCall(own))

/** A line in which nobody stands; one with a rate of its own is let through at least as fast as that. */
export function lineOf(pace: Pace, own: Rate | null): DelayQueue {
  const toleranceMs = pace.burst * msPerCall(pace)
  return { stepMs: stepOf(pace, own), toleranceMs, nextMs: 0, waiting: [], cancel: null }
}

/** A place in the line. */
export type Place = 'free' | 'full' | { dueMs: number }

/**
 * Takes a place by the generic cell rate algorithm: after a burst each call is due one step behind the one before, so the
 * order is kept. `full` beyond the longest wait or the bound of those who wait; the line then stays as it was.
 */
export function reserve(line: DelayQueue, atMs: number): Place {
  const nextMs = Math.max(line.nextMs, atMs) + line.stepMs
  const dueMs = nextMs - line.toleranceMs
  if (dueMs <= atMs && line.waiting.length === 0) {
    line.nextMs = nextMs
    return 'free'
  }
  if (dueMs - atMs > maxWaitMs || line.waiting.length >= maxWaiting) return 'full'
  line.nextMs = nextMs
  return { dueMs }
}

/** Whoever waits is let go on in the order of the line; `leave` takes one out of it. */
export function throttle({ monotonic, later }: ThrottleOptions) {
  const lines = new Set<DelayQueue>()
  const drain = (line: DelayQueue, untilMs: number) => {
    line.cancel = null
    while (line.waiting[0] !== undefined && line.waiting[0].dueMs <= untilMs) line.waiting.shift()?.run()
    arm(line)
  }
  const arm = (line: DelayQueue) => {
    const next = line.waiting[0]
    if (next === undefined) lines.delete(line)
    else line.cancel ??= later(Math.max(1, Math.ceil(next.dueMs - monotonic())), () => drain(line, monotonic()))
  }
  return {
    wait: (line: DelayQueue, dueMs: number, run: () => void): (() => void) => {
      const entry = { dueMs, run }
      line.waiting.push(entry)
      lines.add(line)
      arm(line)
      return () => {
        const at = line.waiting.indexOf(entry)
        if (at >= 0) line.waiting.splice(at, 1)
      }
    },
    /** Lets everybody go on at once: the service stops. */
    release: () => {
      for (const line of lines) {
        line.cancel?.()
        drain(line, Number.POSITIVE_INFINITY)
      }
    },
  }
}

/** The refusal of a call for which the line is too long. */
export const lineIsFull = () =>
  new Problem('RATE_LIMIT_EXCEEDED', 'Too many requests at once: wait 2 seconds', { headers: { 'retry-after': '2' } })
