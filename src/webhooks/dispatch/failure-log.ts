import type { Due } from '../queue/claim.ts'
import { hostOf } from '../registrations.ts'
import type { Outcome } from './outcome.ts'

/**
 * A log line about a failed call, for the operator. Contains no headers, no body, and no path, which may include a
 * secret.
 */
export interface FailureLine {
  webhookId: string | null
  deliveryId: string
  host: string
  /** The error class shown to the owner. */
  class: string | null
  /** The error code, such as ENOTFOUND or CERT_HAS_EXPIRED. */
  cause: string | null
  /** Failed calls to this endpoint that were not logged since the endpoint's previous log line. */
  unlogged: number
}

interface FailureLogOptions {
  now: () => number
  warn: (line: FailureLine) => void
}

interface Logged {
  cause: string | null
  atMs: number
  unlogged: number
}

const repeatMs = 60_000
const changeMs = 5_000
const maxEndpoints = 10_000
const maxLinesPerMinute = 600

/**
 * Logs why calls fail: an endpoint's first failure, a different cause after at least five seconds, and the same cause
 * once a minute, with at most 600 lines a minute in total. After a success, an endpoint's next failure counts as its
 * first.
 */
export function failureLog({ now, warn }: FailureLogOptions): (due: Due, outcome: Outcome) => void {
  const logged = new Map<string, Logged>()
  let minute = 0
  let lines = 0
  const isBeyond = (nowMs: number): boolean => {
    const current = Math.floor(nowMs / repeatMs)
    if (current !== minute) lines = 0
    minute = current
    return lines >= maxLinesPerMinute
  }
  return ({ id, webhookId, lane, url }, { delivered, error, cause }) => {
    if (delivered) return void logged.delete(lane)
    const nowMs = now()
    const last = logged.get(lane)
    const pauseMs = last?.cause === cause ? repeatMs : changeMs
    const isSoon = last !== undefined && Math.abs(nowMs - last.atMs) < pauseMs
    if (isSoon || isBeyond(nowMs)) {
      if (last !== undefined) last.unlogged += 1
      return
    }
    lines += 1
    // Evict the endpoint that was logged longest ago.
    logged.delete(lane)
    if (logged.size >= maxEndpoints) logged.delete(logged.keys().next().value as string)
    logged.set(lane, { cause, atMs: nowMs, unlogged: 0 })
    warn({ webhookId, deliveryId: id, host: hostOf(url), class: error, cause, unlogged: last?.unlogged ?? 0 })
  }
}
