import { Agent, type Dispatcher } from 'undici'
import { type ConnectOptions, ssrfSafeConnect } from '../../http/ssrf-connector.ts'
import { BLOCKED, type TargetVerdict, validateUrl } from '../../http/ssrf-guard.ts'
import { memoize } from '../secrets.ts'
import { type CallOutcome, outcomeOf } from './outcome.ts'
import { exchange } from './read-response.ts'

/** Sends outbound POSTs. `post` never rejects and resolves within `timeoutMs`; `close` waits for calls in flight. */
export interface Sender {
  post(request: OutboundPost): Promise<CallOutcome>
  close(): Promise<void>
}

/** `timeoutMs` limits the whole call; `now` is epoch ms. */
export interface SenderOptions extends ConnectOptions {
  timeoutMs: number
  now: () => number
}

export interface OutboundPost {
  url: string
  headers: Record<string, string>
  body: Uint8Array
  timeoutMs?: number
}

const ownHeaders = /^(host|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|expect|content-length)$/i

// Timeouts are disabled here, because each call has its own time limit. The maximum for keep-alive prevents a receiver
// from keeping idle sockets open for long.
const agentOptions = { allowH2: false, headersTimeout: 0, bodyTimeout: 0, keepAliveMaxTimeout: 30_000 }
const cachedUrls = 1_000

/**
 * Returns a client with its own pool of keep-alive connections that connects only to vetted addresses and follows no
 * redirects.
 */
export function sender(options: SenderOptions): Sender {
  const { policy, timeoutMs, now } = options
  const agent = new Agent({ ...agentOptions, connect: ssrfSafeConnect(options) })
  const parseTarget = memoize(cachedUrls, (url: string) => targetOf(validateUrl(policy, url)))
  return {
    close: () => agent.close(),
    post: async ({ url, headers, body, timeoutMs: limitMs = timeoutMs }) => {
      const startedAt = now()
      const target = parseTarget(url)
      const response =
        target === null
          ? { status: null, headers: {}, start: null, failure: { code: BLOCKED } }
          : await exchange(agent, callOf(target, headers, body), limitMs)
      return outcomeOf(response, startedAt, now())
    },
  }
}

type Target = { origin: string; path: string }

/**
 * Returns a call's target; null if the URL may not be called. Computed once per URL, because URL getters rebuild
 * their strings on each access.
 */
const targetOf = (verdict: TargetVerdict): Target | null =>
  verdict.ok ? { origin: verdict.url.origin, path: verdict.url.pathname + verdict.url.search } : null

function callOf(
  { origin, path }: Target,
  headers: Record<string, string>,
  body: Uint8Array,
): Dispatcher.DispatchOptions {
  const names = Object.keys(headers)
  const allowed = names.some((name) => ownHeaders.test(name))
    ? Object.fromEntries(Object.entries(headers).filter(([name]) => !ownHeaders.test(name)))
    : headers
  return { method: 'POST', origin, path, headers: allowed, body }
}
