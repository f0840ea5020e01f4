import { type RateLines, rateLines } from './header-lines.ts'
import type { Limit } from './limit.ts'

/** The number of calls counted for a limit in the current window. */
export interface Window {
  limit: Limit
  /** Number of calls, including the current call; greater than the limit if the current call is refused. */
  used: number
  endsAtMs: number
  /** End of the window in whole epoch seconds, as sent in headers. */
  resetsAt: number
  /** Header text that does not change during the window. */
  lines: RateLines
}

export function windowOf(limit: Limit, used: number, endsAtMs: number): Window {
  const resetsAt = Math.ceil(endsAtMs / 1_000)
  return { limit, used, endsAtMs, resetsAt, lines: rateLines(limit, resetsAt) }
}

/**
 * Counts a call in this process in a fixed window, which starts with the first call. If the end of a window is more
 * than its full length away, the clock was set back after the window started; such a window is treated as ended
 * (T-LIM-01).
 */
export function consumeLocal(windows: (Window | undefined)[], limit: Limit, atMs: number): Window {
  const open = windows[limit.slot]
  if (open !== undefined && open.limit === limit && !isOver(open, atMs)) {
    if (open.used <= limit.calls) open.used++
    return open
  }
  const fresh = windowOf(limit, 1, atMs + limit.windowMs)
  windows[limit.slot] = fresh
  return fresh
}

/** Returns the current window without counting a call. */
export function peekLocal(windows: (Window | undefined)[], limit: Limit, atMs: number): Window {
  const open = windows[limit.slot]
  const isOpen = open !== undefined && open.limit === limit && !isOver(open, atMs)
  return isOpen ? open : windowOf(limit, 0, atMs + limit.windowMs)
}

export const isOver = ({ endsAtMs, limit }: Window, atMs: number): boolean =>
  atMs >= endsAtMs || endsAtMs - atMs > limit.windowMs

/** Returns the number of calls left in the window, at least 0. */
export const remainingOf = ({ limit, used }: Window): number => (used < limit.calls ? limit.calls - used : 0)

export const isExceeded = ({ limit, used }: Window): boolean => used > limit.calls

/** Returns the number of seconds until the window ends, rounded up and at least 1. */
export const secondsLeft = ({ endsAtMs }: Window, atMs: number): number =>
  Math.max(1, Math.ceil((endsAtMs - atMs) / 1_000))

/**
 * Returns the window to report in headers: the window with fewer calls left or, if both limits are exceeded, the window
 * that ends later.
 */
export function tighter(one: Window | null, other: Window | null): Window | null {
  if (one === null || other === null) return one ?? other
  if (isExceeded(one) && isExceeded(other)) return other.endsAtMs > one.endsAtMs ? other : one
  if (isExceeded(one) || isExceeded(other)) return isExceeded(one) ? one : other
  return remainingOf(other) <= remainingOf(one) ? other : one
}
