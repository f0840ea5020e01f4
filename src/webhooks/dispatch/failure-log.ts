import { traceIdOf } from '../../http/headers/trace-context.ts'
import type { RecordedAttempt } from './outcome.ts'

/**
 * A log line about a failed attempt, for the operator. Contains no headers, no body, and no path or query of the URL,
 * which may include a secret.
 */
export interface FailureLine {
  /** Null for the callback URL of a request. */
  webhookId: string | null
  deliveryId: string
  origin: string
  /** The attempt's number; undefined if the delivery ended without being sent. */
  attempt: number | undefined
  /** The error class shown to the owner. */
  class: string | undefined
  /** The error code, such as ENOTFOUND or CERT_HAS_EXPIRED, or why nothing was sent. */
  cause: string | null
  /** The status of the response, if there was one. */
  status: number | undefined
  /** Whether the delivery waits for another attempt or has failed. */
  state: RecordedAttempt['state']
  nextAttemptAt: string | undefined
  /** Failed attempts at this endpoint that were not logged since the endpoint's previous log line. */
  unlogged: number
  traceId: string | undefined
}

interface FailureLogOptions {
  now: () => number
  warn: (line: FailureLine) => void
}

interface Logged {
  minute: number
  lines: number
  unlogged: number
}

const minuteMs = 60_000
const maxEndpoints = 10_000
const maxLinesPerMinute = 600
const maxLinesPerEndpoint = 10

/**
 * Logs failed attempts, up to 10 lines a minute for each endpoint and 600 in total. Each line includes the number of
 * the endpoint's failures that were not logged since its previous line.
 */
export function failureLog({ now, warn }: FailureLogOptions): (recorded: readonly RecordedAttempt[]) => void {
  const endpoints = new Map<string, Logged>()
  let minute = 0
  let lines = 0
  const endpointOf = (lane: string): Logged => {
    const known = endpoints.get(lane)
    // Evict the endpoint whose last failure is longest ago.
    endpoints.delete(lane)
    if (endpoints.size >= maxEndpoints) endpoints.delete(endpoints.keys().next().value as string)
    const one = known?.minute === minute ? known : { minute, lines: 0, unlogged: known?.unlogged ?? 0 }
    endpoints.set(lane, one)
    return one
  }
  const log = (recorded: RecordedAttempt) => {
    if (recorded.tried.outcome?.delivered) return
    const current = Math.floor(now() / minuteMs)
    if (current !== minute) lines = 0
    minute = current
    const endpoint = endpointOf(recorded.tried.due.lane)
    if (lines >= maxLinesPerMinute || endpoint.lines >= maxLinesPerEndpoint) {
      endpoint.unlogged += 1
      return
    }
    lines += 1
    endpoint.lines += 1
    warn({ ...lineOf(recorded), unlogged: endpoint.unlogged })
    endpoint.unlogged = 0
  }
  return (recorded) => recorded.forEach(log)
}

function lineOf({
  tried: { due, outcome, unsent },
  state,
  nextAttemptAt,
}: RecordedAttempt): Omit<FailureLine, 'unlogged'> {
  const { id: deliveryId, webhookId, url, attempts, trace } = due
  return {
    ...{ webhookId, deliveryId, origin: URL.parse(url)?.origin ?? '' },
    attempt: outcome ? attempts + 1 : undefined,
    class: outcome?.error ?? undefined,
    cause: unsent ? unsent.cause : outcome.cause,
    status: outcome?.status ?? undefined,
    ...{ state, nextAttemptAt: nextAttemptAt ?? undefined },
    traceId: trace ? traceIdOf(trace) : undefined,
  }
}
