import { type RateLines, rateLines } from './header-lines.ts'
import type { Limit } from './limit.ts'

/** The count of a limit in the current window. */
export interface Window {
  limit: Limit
  /** Calls including the current one; above the limit if the current one is refused. */
  used: number
  endsAtMs: number
  /** End of the window in whole epoch seconds, as sent in headers. */
  resetsAt: number
  /** Header text that stays the same throughout the window. */
  lines: RateLines
}

export function windowOf(limit: Limit, used: number, endsAtMs: number): Window {
  const resetsAt = Math.ceil(endsAtMs / 1_000)
  return { limit, used, endsAtMs, resetsAt, lines: rateLines(limit, resetsAt) }
}

/**
 * Counts a call in this process in a fixed window, which starts with its first call. A window that ends later than now plus
 * the window length predates a clock change and counts as ended (T-LIM-01).
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

/** The current window, without counting a call. */
export function peekLocal(windows: (Window | undefined)[], limit: Limit, atMs: number): Window {
  const open = windows[limit.slot]
  const isOpen = open !== undefined && open.limit === limit && !isOver(open, atMs)
  return isOpen ? open : windowOf(limit, 0, atMs + limit.windowMs)
}

export const isOver = ({ endsAtMs, limit }: Window, atMs: number): boolean =>
  atMs >= endsAtMs || endsAtMs - atMs > limit.windowMs

/** Calls left in the window, at least 0. */
export const remainingOf = ({ limit, used }: Window): number => (used < limit.calls ? limit.calls - used : 0)

export const isExceeded = ({ limit, used }: Window): boolean => used > limit.calls

/** Whole seconds until the window ends, at least one. */
export const secondsLeft = ({ endsAtMs }: Window, atMs: number): number =>
  Math.max(1, Math.ceil((endsAtMs - atMs) / 1_000))

/** The window that headers report: the one with fewer calls left or, when both are exceeded, the one that ends later. */
export function tighter(one: Window | null, other: Window | null): Window | null {
  if (one === null || other === null) return one ?? other
  if (isExceeded(one) && isExceeded(other)) return other.endsAtMs > one.endsAtMs ? other : one
  if (isExceeded(one) || isExceeded(other)) return isExceeded(one) ? one : other
  return remainingOf(other) <= remainingOf(one) ? other : one
}
