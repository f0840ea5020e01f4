import { Agent, type Dispatcher } from 'undici'
import { BLOCKED, type ConnectOptions, judgeUrl, ssrfSafeConnect, type Verdict } from '../../http/ssrf-guard.ts'
import { memoize } from '../secrets.ts'
import { type Outcome, outcomeOf } from './outcome.ts'
import { exchange } from './read-response.ts'

/** Outbound POSTs: `post` never throws and ends within `timeoutMs`, `close` waits for calls in flight. */
export interface Sender {
  post(request: OutboundPost): Promise<Outcome>
  close(): Promise<void>
}

/** What a sender needs: the whole call ends after `timeoutMs`; `now` is epoch ms. */
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

// The call's own signal is the only clock after connecting, and a receiver's hint keeps no idle socket for long.
const agentOptions = { allowH2: false, headersTimeout: 0, bodyTimeout: 0, keepAliveMaxTimeout: 30_000 }
const judgedUrls = 1_000

/** A sender with kept-alive connections of its own that reaches only vetted addresses and follows nothing. */
export function sender(options: SenderOptions): Sender {
  const { policy, timeoutMs, now } = options
  const agent = new Agent({ ...agentOptions, connect: ssrfSafeConnect(options) })
  const judge = memoize(judgedUrls, (url: string) => targetOf(judgeUrl(policy, url)))
  return {
    close: () => agent.close(),
    post: async ({ url, headers, body, timeoutMs: limitMs = timeoutMs }) => {
      const startedAt = now()
      const target = judge(url)
      const answer =
        target === null
          ? { status: null, retryAfter: null, start: null, failure: { code: BLOCKED } }
          : await exchange(agent, callOf(target, headers, body), limitMs)
      return outcomeOf(answer, startedAt, now())
    },
  }
}

type Target = { origin: string; path: string }

/** Where a call goes; null for a URL that may not be called. Read once: a URL makes its parts anew at each look. */
const targetOf = (verdict: Verdict): Target | null =>
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
