import { Agent, fetch } from 'undici'
import { type ConnectOptions, ssrfSafeConnect } from '../http/ssrf-connector.ts'
import { validateUrl } from '../http/ssrf-guard.ts'

/**
 * Returns a `fetch` that connects only to addresses that are allowed for webhooks, even after a redirect. `close` waits
 * for the requests in flight.
 */
export function guardedFetch(options: ConnectOptions): { fetch: typeof globalThis.fetch; close: () => Promise<void> } {
  const agent = new Agent({ connect: ssrfSafeConnect(options) })
  const guarded = async (target: string | URL, init?: object) => {
    const verdict = validateUrl(options.policy, String(target))
    if (!verdict.ok) throw new TypeError(`fetch: the URL ${verdict.reason}`)
    return fetch(verdict.url, { ...init, dispatcher: agent })
  }
  return { fetch: guarded as unknown as typeof globalThis.fetch, close: () => agent.close() }
}
