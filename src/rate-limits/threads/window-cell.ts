import { consumeLocal, peekLocal, type Window, windowOf } from '../fixed-window.ts'
import type { Limit } from '../limit.ts'
import type { Cell } from './cells.ts'

/**
 * A value contains the count in its lower 30 bits, and the end of the window (in ms, modulo 198 days) in the bits
 * above.
 */
const countBits = 30n
const countMask = 2n ** countBits - 1n
const [endBits, endRange] = [34, 2 ** 34]
const maxWindowMs = 86_400_000

const countOf = (value: bigint) => Number(value & countMask)
const packed = (count: number, endsAtMs: number) =>
  (BigInt.asUintN(endBits, BigInt(endsAtMs)) << countBits) | BigInt(count)

/** Returns the end of a window: of all times that match the stored bits, the one closest to `atMs`. */
function endOf(value: bigint, atMs: number): number {
  const distance = (Number(value >> countBits) - (atMs % endRange) + endRange) % endRange
  return Math.round(atMs + (distance < endRange / 2 ? distance : distance - endRange))
}

/** Returns whether a window has ended, or its end is too far in the future to be valid. */
export function isWindowOver(value: bigint, atMs: number): boolean {
  const endsAtMs = endOf(value, atMs)
  return endsAtMs <= atMs || endsAtMs - atMs > maxWindowMs
}

/** The counters of an account's calls. */
interface Counting {
  windows: (Window | undefined)[]
  /** Null if this process serves requests in a single thread. */
  cells: { window: (slot: number) => Cell } | null
}

/** Counts a call of an account, for all threads of this process, and returns the window. */
export const consume = ({ windows, cells }: Counting, limit: Limit, atMs: number): Window =>
  cells ? consumeCell(cells.window(limit.slot), windows, limit, atMs) : consumeLocal(windows, limit, atMs)

/** Returns the current window of an account without counting a call. */
export const peek = ({ windows, cells }: Counting, limit: Limit, atMs: number): Window =>
  cells ? peekCell(cells.window(limit.slot), windows, limit, atMs) : peekLocal(windows, limit, atMs)

/**
 * Counts a call for all threads, as `consumeLocal` does for one thread. `windows` contains the windows that this thread
 * last saw.
 */
function consumeCell(cell: Cell, windows: (Window | undefined)[], limit: Limit, atMs: number): Window {
  for (;;) {
    const before = cell.load()
    const open = openWindow(before, limit, atMs)
    if (open !== null && open.count > limit.calls) return seen(windows, limit, open)
    const next = open ? { ...open, count: open.count + 1 } : { count: 1, endsAtMs: Math.round(atMs + limit.windowMs) }
    if (cell.swap(before, packed(next.count, next.endsAtMs))) return seen(windows, limit, next)
  }
}

function peekCell(cell: Cell, windows: (Window | undefined)[], limit: Limit, atMs: number): Window {
  return seen(windows, limit, openWindow(cell.load(), limit, atMs) ?? { count: 0, endsAtMs: atMs + limit.windowMs })
}

interface CountedWindow {
  count: number
  endsAtMs: number
}

function openWindow(value: bigint, limit: Limit, atMs: number): CountedWindow | null {
  if (value === 0n) return null
  const endsAtMs = endOf(value, atMs)
  return atMs < endsAtMs && endsAtMs - atMs <= limit.windowMs ? { count: countOf(value), endsAtMs } : null
}

/**
 * Returns the window as an object. The same window keeps its object, so that its header lines are composed only once.
 */
function seen(windows: (Window | undefined)[], limit: Limit, { count, endsAtMs }: CountedWindow): Window {
  const before = windows[limit.slot]
  if (before?.limit === limit && before.endsAtMs === endsAtMs) {
    before.used = count
    return before
  }
  const window = windowOf(limit, count, endsAtMs)
  windows[limit.slot] = window
  return window
}
