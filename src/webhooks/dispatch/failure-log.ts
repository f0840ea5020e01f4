import type { Due } from '../queue/claim.ts'
import { hostOf } from '../registrations.ts'
import type { Outcome } from './outcome.ts'

/** What the operator's log says of a failed call: no path, which may hold a secret, no header and no body. */
export interface FailureLine {
  webhookId: string | null
  deliveryId: string
  host: string
  /** As the owner sees it. */
  class: string | null
  /** The code of the failure, such as ENOTFOUND or CERT_HAS_EXPIRED. */
  cause: string | null
  /** How many failed calls of this endpoint had no line since its last one. */
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
const maxLanes = 10_000
const maxLinesPerMinute = 600

/**
 * Logs why calls fail: the first failure of an endpoint, another cause after five seconds at the earliest, and else once
 * a minute, at most 600 lines a minute altogether. A success begins anew.
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
    // The endpoint that was logged longest ago is forgotten first.
    logged.delete(lane)
    if (logged.size >= maxLanes) logged.delete(logged.keys().next().value as string)
    logged.set(lane, { cause, atMs: nowMs, unlogged: 0 })
    warn({ webhookId, deliveryId: id, host: hostOf(url), class: error, cause, unlogged: last?.unlogged ?? 0 })
  }
}
