import { type RateLines, rateLines } from './header-lines.ts'
import type { Limit } from './limit.ts'

/** What was counted against a limit in the window under way. */
export interface Window {
  limit: Limit
  /** Calls, the one at hand included; more than the limit allows when that one is refused. */
  used: number
  endsAtMs: number
  /** The end in whole epoch seconds, as answers say it. */
  resetsAt: number
  /** What of answers does not change while it lasts. */
  lines: RateLines
}

export function windowOf(limit: Limit, used: number, endsAtMs: number): Window {
  const resetsAt = Math.ceil(endsAtMs / 1_000)
  return { limit, used, endsAtMs, resetsAt, lines: rateLines(limit, resetsAt) }
}

/**
 * Counts a call in a fixed window in this process: it begins with its first call. A window that ends further ahead than
 * windows are long is from before the clock was set back, and is over (T-LIM-01).
 */
export function takeHere(windows: (Window | undefined)[], limit: Limit, atMs: number): Window {
  const open = windows[limit.slot]
  if (open !== undefined && open.limit === limit && !isOver(open, atMs)) {
    if (open.used <= limit.calls) open.used++
    return open
  }
  const fresh = windowOf(limit, 1, atMs + limit.windowMs)
  windows[limit.slot] = fresh
  return fresh
}

/** The window as it stands, without counting. */
export function lookHere(windows: (Window | undefined)[], limit: Limit, atMs: number): Window {
  const open = windows[limit.slot]
  const isOpen = open !== undefined && open.limit === limit && !isOver(open, atMs)
  return isOpen ? open : windowOf(limit, 0, atMs + limit.windowMs)
}

export const isOver = ({ endsAtMs, limit }: Window, atMs: number): boolean =>
  atMs >= endsAtMs || endsAtMs - atMs > limit.windowMs

/** Calls left in the window, never below zero. */
export const remainingOf = ({ limit, used }: Window): number => (used < limit.calls ? limit.calls - used : 0)

export const isExceeded = ({ limit, used }: Window): boolean => used > limit.calls

/** Whole seconds until the window ends, at least one. */
export const secondsLeft = ({ endsAtMs }: Window, atMs: number): number =>
  Math.max(1, Math.ceil((endsAtMs - atMs) / 1_000))

/** The one that answers show: with less left, or, when both are exceeded, the one to wait longer for. */
export function tighter(one: Window | null, other: Window | null): Window | null {
  if (one === null || other === null) return one ?? other
  if (isExceeded(one) && isExceeded(other)) return other.endsAtMs > one.endsAtMs ? other : one
  if (isExceeded(one) || isExceeded(other)) return isExceeded(one) ? one : other
  return remainingOf(other) <= remainingOf(one) ? other : one
}
