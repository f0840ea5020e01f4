import { BLOCKED } from '../../http/ssrf-guard.ts'
import type { Due } from '../queue/claim.ts'
import type { Answer } from './read-response.ts'

/** What came of one call; `error` is a short class fit for the endpoint's owner, null when delivered. */
export interface Outcome {
  status: number | null
  delivered: boolean
  gone: boolean
  retryAfterSeconds: number | null
  error: string | null
  /** For the operator alone: the code of the failure, such as ECONNREFUSED; null when delivered. */
  cause: string | null
  /** Its address may not be called. Nothing of this is told to the owner, to whom it is one of many unreachable ones. */
  blocked: boolean
  durationMs: number
  responseStart: string | null
}

const maxWaitSeconds = 86_400
const httpDate = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? [\w -]+ \d\d:\d\d:\d\d (GMT|\d{4})$/

/**
 * Whatever keeps a call from a connection is one class: a name without an address, a closed or silent port, an address
 * that may not be called. More would let callers ask what there is in the service's own network (T-SSRF-08).
 */
const unreachable = 'unreachable'
const unreachableStepMs = 100

const errorClasses: readonly [code: RegExp, name: string][] = [
  [/^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|EACCES|EPERM)$/, unreachable],
  [/^(UND_ERR_CONNECT_TIMEOUT|ETIMEDOUT|ENOTFOUND|ENODATA|ESERVFAIL|EAI_.*)$/, unreachable],
  [new RegExp(`^${BLOCKED}$`), unreachable],
  [/^timeout$/, 'timeout'],
  [/^(ECONNRESET|EPIPE|ECONNABORTED|UND_ERR_SOCKET)$/, 'connection reset'],
  [/^(HPE_|HTTPParserError|UND_ERR_(HEADERS_OVERFLOW|RES_|INFO))/, 'invalid response'],
  [/^UND_ERR_(INVALID_ARG|NOT_SUPPORTED|REQ_)/, 'invalid request'],
  [/^UND_ERR_(CLOSED|DESTROYED)$/, 'sender closed'],
  [/CERT|CRL|TLS|SSL|UNABLE_TO|EPROTO|INVALID_(CA|PURPOSE)|HOSTNAME_MISMATCH|PATH_LENGTH/, 'tls'],
]

/** Judges an answer: 2xx within the time is delivered, everything else is not. Times are epoch ms. */
export function outcomeOf({ status, retryAfter, start, failure }: Answer, startedAt: number, now: number): Outcome {
  const complaint = failure === null ? statusClass(status ?? 0) : errorClass(failure)
  const durationMs = Math.max(0, now - startedAt)
  return {
    status,
    delivered: complaint === null,
    gone: status === 410,
    retryAfterSeconds: waitSeconds(retryAfter, now),
    error: complaint,
    cause: failure === null ? complaint : causeOf(failure),
    blocked: codeOf(failure) === BLOCKED,
    // Not to the millisecond: that would tell a refused connection from one that was not tried.
    durationMs: complaint === unreachable ? roundedUp(durationMs) : durationMs,
    responseStart: start,
  }
}

const roundedUp = (ms: number): number => Math.max(1, Math.ceil(ms / unreachableStepMs)) * unreachableStepMs

function statusClass(status: number): string | null {
  if (status >= 200 && status < 300) return null
  return status >= 300 && status < 400 ? 'redirect not followed' : `http ${status}`
}

/** Retry-After in seconds from now (RFC 9110 section 10.2.3, dates in all three forms of section 5.6.7). */
function waitSeconds(header: unknown, now: number): number | null {
  if (typeof header !== 'string') return null
  const text = header.trim()
  if (/^\d+$/.test(text)) return Math.min(Number(text), maxWaitSeconds)
  if (!httpDate.test(text)) return null
  const waitMs = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`) - now
  return waitMs >= 0 ? Math.min(Math.ceil(waitMs / 1000), maxWaitSeconds) : null
}

function codeOf(failure: unknown): string {
  const { code, name } = (failure ?? {}) as { code?: unknown; name?: unknown }
  return typeof code === 'string' ? code : String(name)
}

/** The code, with the phase of a timeout; of a failure that has another one as its cause, the code of that one. */
function causeOf(failure: unknown): string {
  const { cause, phase } = (failure ?? {}) as { cause?: unknown; phase?: unknown }
  const { code } = (cause ?? {}) as { code?: unknown }
  const known = typeof code === 'string' ? code : codeOf(failure)
  return typeof phase === 'string' ? `${known} while ${phase}` : known
}

const errorClass = (failure: unknown): string => {
  const code = codeOf(failure)
  return errorClasses.find(([pattern]) => pattern.test(code))?.[1] ?? 'failed'
}

/** A claim and what came of it; no outcome when nothing was sent, because its registration had ended. */
export interface Tried {
  due: Due
  startedAt: string
  outcome: Outcome | null
}
