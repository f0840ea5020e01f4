import { once } from 'node:events'
import { Agent, type Dispatcher } from 'undici'
import { BLOCKED, blocked, type ConnectOptions, guardedConnect, judgeUrl } from '../../http/guard.ts'

/** Outbound POSTs: `post` never throws and ends within `timeoutMs`, `close` waits for calls in flight. */
export interface Sender {
  post(request: OutboundPost): Promise<Outcome>
  close(): Promise<void>
}

/** What came of one call; `error` is a short class fit for the endpoint's owner, null when delivered. */
export type Outcome = {
  status: number | null
  delivered: boolean
  gone: boolean
  retryAfterSeconds: number | null
  error: string | null
  blocked: boolean
  durationMs: number
  responseStart: string | null
}

/** What a sender needs: the whole call ends after `timeoutMs`; `now` is epoch ms. */
export interface SenderOptions extends ConnectOptions {
  timeoutMs: number
  now: () => number
}

type OutboundPost = { url: string; headers: Record<string, string>; body: Uint8Array; timeoutMs?: number }
type Answer = { status: number | null; retryAfter: unknown; start: string | null; error: string | null }

const MOST_READ_BYTES = 65_536
const MOST_KEPT_BYTES = 4096
const LONGEST_WAIT_SECONDS = 86_400
const HTTP_DATE = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? [\w -]+ \d\d:\d\d:\d\d (GMT|\d{4})$/
const OWN_HEADERS =
  /^(host|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|expect|content-length)$/i

const ERROR_CLASSES: readonly [code: RegExp, name: string][] = [
  [/^(UND_ERR_CONNECT_TIMEOUT|ETIMEDOUT)$/, 'connect timeout'],
  [/^ECONNREFUSED$/, 'connection refused'],
  [/^(ECONNRESET|EPIPE|ECONNABORTED|UND_ERR_SOCKET)$/, 'connection reset'],
  [/^(EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|EACCES|EPERM)$/, 'unreachable'],
  [/^(ENOTFOUND|ENODATA|ESERVFAIL|EAI_.*)$/, 'dns'],
  [/^(HPE_|HTTPParserError|UND_ERR_(HEADERS_OVERFLOW|RES_|INFO))/, 'invalid response'],
  [/^UND_ERR_(INVALID_ARG|NOT_SUPPORTED|REQ_)/, 'invalid request'],
  [/^UND_ERR_(CLOSED|DESTROYED)$/, 'sender closed'],
  [/CERT|CRL|TLS|SSL|UNABLE_TO|EPROTO|INVALID_(CA|PURPOSE)|HOSTNAME_MISMATCH|PATH_LENGTH/, 'tls'],
]

/** A sender with connections of its own that reaches only vetted addresses and follows nothing. */
export function sender(options: SenderOptions): Sender {
  const agent = new Agent({ ...LIMITS, connect: guardedConnect(options) })
  return {
    close: () => agent.close(),
    post: async (request) => {
      const startedAt = options.now()
      const answer = await exchange(agent, options, request)
      return outcome(answer, startedAt, options.now())
    },
  }
}

// The call's own signal is the only clock after connecting, and a receiver's hint keeps no idle socket for long.
const LIMITS = { allowH2: false, headersTimeout: 0, bodyTimeout: 0, keepAliveMaxTimeout: 30_000 }

async function exchange(agent: Agent, options: SenderOptions, request: OutboundPost): Promise<Answer> {
  const answer: Answer = { status: null, retryAfter: null, start: null, error: null }
  const limit = new AbortController()
  const timer = setTimeout(() => limit.abort(), request.timeoutMs ?? options.timeoutMs)
  try {
    const response = await ask(agent, options, request, limit.signal)
    answer.status = response.statusCode
    answer.retryAfter = response.headers['retry-after']
    await readStart(response.body, answer)
  } catch (error) {
    answer.error = limit.signal.aborted ? 'timeout' : errorClass(error)
  }
  clearTimeout(timer)
  return answer
}

function ask(agent: Agent, { policy }: SenderOptions, { url, headers, body }: OutboundPost, signal: AbortSignal) {
  const verdict = judgeUrl(policy, url)
  if (!verdict.ok) throw blocked()
  const { origin, pathname, search } = verdict.url
  const allowed = Object.fromEntries(Object.entries(headers).filter(([name]) => !OWN_HEADERS.test(name)))
  const asked = agent.request({ method: 'POST', origin, path: pathname + search, headers: allowed, body, signal })
  // undici heeds the signal only once it is connected.
  return Promise.race([asked, once(signal, 'abort').then(() => Promise.reject<never>(signal.reason))])
}

async function readStart(body: Dispatcher.ResponseData['body'], answer: Answer): Promise<void> {
  const kept: Buffer[] = []
  let size = 0
  body.on('error', () => {})
  try {
    for await (const chunk of body) {
      if (size < MOST_KEPT_BYTES) kept.push(chunk)
      size += chunk.length
      if (size >= MOST_READ_BYTES) break
    }
  } finally {
    answer.start = textOf(Buffer.concat(kept))
  }
}

/** PostgreSQL text holds no NUL, and a character that the cut split is left out. */
function textOf(bytes: Buffer): string {
  const cut = bytes.length > MOST_KEPT_BYTES
  return new TextDecoder().decode(bytes.subarray(0, MOST_KEPT_BYTES), { stream: cut }).replaceAll('\0', '')
}

function outcome({ status, retryAfter, start, error }: Answer, startedAt: number, now: number): Outcome {
  const complaint = error ?? statusClass(status ?? 0)
  return {
    status,
    delivered: complaint === null,
    gone: status === 410,
    retryAfterSeconds: waitSeconds(retryAfter, now),
    error: complaint,
    blocked: error === BLOCKED,
    durationMs: Math.max(0, now - startedAt),
    responseStart: start,
  }
}

function statusClass(status: number): string | null {
  if (status >= 200 && status < 300) return null
  return status >= 300 && status < 400 ? 'redirect not followed' : `http ${status}`
}

/** Retry-After in seconds from now (RFC 9110 section 10.2.3, dates in all three forms of section 5.6.7). */
function waitSeconds(header: unknown, now: number): number | null {
  if (typeof header !== 'string') return null
  const text = header.trim()
  if (/^\d+$/.test(text)) return Math.min(Number(text), LONGEST_WAIT_SECONDS)
  if (!HTTP_DATE.test(text)) return null
  const waitMs = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`) - now
  return waitMs >= 0 ? Math.min(Math.ceil(waitMs / 1000), LONGEST_WAIT_SECONDS) : null
}

function errorClass(error: unknown): string {
  const { code, name } = error as { code?: unknown; name?: unknown }
  const key = typeof code === 'string' ? code : String(name)
  return key === BLOCKED ? BLOCKED : (ERROR_CLASSES.find(([pattern]) => pattern.test(key))?.[1] ?? 'failed')
}
