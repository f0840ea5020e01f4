import { BLOCKED } from '../../http/ssrf-guard.ts'
import type { Due } from '../queue/claim.ts'
import { type EndpointResponse, headersToStore } from './read-response.ts'

/** The outcome of one call. `error` is a short error category that is safe to show to the owner; null if delivered. */
export interface CallOutcome {
  status: number | null
  delivered: boolean
  gone: boolean
  retryAfterSeconds: number | null
  error: string | null
  /** For the operator only: the error code, such as ECONNREFUSED; null if delivered. */
  cause: string | null
  /**
   * Whether the call was blocked because its address is not allowed. The owner sees the same error class as for any
   * unreachable endpoint.
   */
  blocked: boolean
  durationMs: number
  responseStart: string | null
  /** The response headers of a failed attempt as JSON text: see `headersToStore`. */
  responseHeaders: string | null
}

const maxWaitSeconds = 86_400
const httpDate = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? [\w -]+ \d\d:\d\d:\d\d (GMT|\d{4})$/

/**
 * The error class for every connection failure: an unresolvable host name, a closed or unresponsive port, a blocked
 * address. Finer classes would let clients probe the service's own network (T-SSRF-08).
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

/** Classifies a response: a 2xx within the time limit means delivered, anything else failed. Times are epoch ms. */
export function outcomeOf(
  { status, headers, start, failure }: EndpointResponse,
  startedAt: number,
  now: number,
): CallOutcome {
  const complaint = failure === null ? statusClass(status ?? 0) : errorClass(failure)
  const durationMs = Math.max(0, now - startedAt)
  return {
    status,
    delivered: complaint === null,
    gone: status === 410,
    retryAfterSeconds: waitSeconds(headers['retry-after'], now),
    error: complaint,
    cause: failure === null ? complaint : causeOf(failure),
    blocked: codeOf(failure) === BLOCKED,
    // Rounded, because the exact duration would reveal whether a connection was refused or not attempted at all.
    durationMs: complaint === unreachable ? roundedUp(durationMs) : durationMs,
    responseStart: start,
    responseHeaders: complaint === null ? null : headersToStore(headers),
  }
}

const roundedUp = (ms: number): number => Math.max(1, Math.ceil(ms / unreachableStepMs)) * unreachableStepMs

function statusClass(status: number): string | null {
  if (status >= 200 && status < 300) return null
  return status >= 300 && status < 400 ? 'redirect not followed' : `http ${status}`
}

/**
 * Returns the seconds to wait according to Retry-After (RFC 9110 §10.2.3, with any of the three date formats of
 * §5.6.7), at most a day; null if the header is missing, invalid or in the past.
 */
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

/**
 * Returns the code of the error's cause or, if the cause has none, of the error itself. For a timeout, appends the
 * phase in which the call timed out.
 */
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

/** Why a delivery ends without being sent: a text for the owner, and a word for the log. */
export interface Unsent {
  reason: string
  cause: 'stopped' | 'not covered' | 'not readable'
}

/** A claim and its outcome; `outcome` is null if nothing was sent, for the reason in `unsent`. */
export type Tried = { due: Due; startedAt: string } & (
  | { outcome: CallOutcome; unsent?: undefined }
  | { outcome: null; unsent: Unsent }
)

/** The recorded result of a claim: the delivery's state, and when its next attempt is due. */
export interface RecordedAttempt {
  tried: Tried
  state: 'pending' | 'delivered' | 'failed'
  nextAttemptAt: string | null
}
