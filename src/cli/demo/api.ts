import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { Agent, buildConnector } from 'undici'

/** How to reach the service: its public origin, and the host and port of its listener. */
export interface Address {
  origin: string
  host: string
  port: number
  /** Additional CA certificates to trust, in PEM. */
  ca?: string[]
}

export interface ApiResponse {
  status: number
  headers: Record<string, string | string[] | undefined>
  body: Readable
}

export interface CallOptions {
  json?: unknown
  form?: Record<string, string>
  headers?: Record<string, string>
  /** Timeout for the response headers in ms. */
  withinMs?: number
}

/** Sends one request. Resolves with any response, regardless of its status; rejects on a connection error. */
export type Send = (method: 'GET' | 'POST' | 'DELETE', path: string, options?: CallOptions) => Promise<ApiResponse>

/** Creates an HTTP client for the service; it verifies the service's certificate. */
export function client({ origin, host, port, ca }: Address, signal: AbortSignal): { send: Send; close: () => void } {
  const connect = buildConnector({ timeout: 5_000, ...(ca && { ca }) })
  const agent = new Agent({
    connections: 16,
    // Connects to the listener itself: the origin may belong to a proxy or may not resolve to this machine.
    connect: (target, done) => connect({ ...target, hostname: host, port: String(port) }, done),
  })
  const send: Send = async (method, path, { json, form, headers, withinMs = 30_000 } = {}) => {
    const type = json !== undefined ? 'application/json' : form && 'application/x-www-form-urlencoded'
    const body = json !== undefined ? JSON.stringify(json) : form && new URLSearchParams(form).toString()
    const { statusCode, ...response } = await agent.request({
      origin,
      path,
      method,
      signal,
      headersTimeout: withinMs,
      headers: { accept: '*/*', ...(type && { 'content-type': type }), ...headers },
      ...(body !== undefined && { body }),
    })
    return { status: statusCode, headers: response.headers, body: response.body }
  }
  return { send, close: () => void agent.destroy() }
}

/** Sends a request that must succeed; retries if the service is busy. */
export type Call = Send

const maxAttempts = 8

/** Wraps `send`: adds common headers, retries up to seven times after 429 and 503, and throws on an error response. */
export function caller(send: Send, signal: AbortSignal, common: Record<string, string>): Call {
  return async (method, path, options = {}) => {
    for (let attempt = 1; ; attempt++) {
      const response = await send(method, path, { ...options, headers: { ...common, ...options.headers } })
      if (response.status < 300) return response
      const isRetryable = response.status === 429 || response.status === 503
      if (!isRetryable || attempt === maxAttempts) throw await errorOf(`${method} ${path}`, response)
      await response.body.resume()
      await sleep(retryAfterMs(response) ?? 1_000, undefined, { signal })
    }
  }
}

/** Returns the delay from Retry-After (RFC 9110 §10.2.3) if the header specifies seconds. */
export function retryAfterMs({ headers }: ApiResponse): number | undefined {
  const seconds = Number(headers['retry-after'])
  return Number.isFinite(seconds) ? Math.max(seconds, 0) * 1_000 : undefined
}

/** Parses a response's JSON body. */
export async function jsonOf<T>({ body }: ApiResponse): Promise<T> {
  return JSON.parse(Buffer.concat(await body.toArray()).toString()) as T
}

/** Members of the service's error bodies, in any of its error formats. */
interface ErrorBody {
  detail?: string
  message?: string
  error_description?: string
  error?: string
  errors?: { field: string; message: string }[]
}

async function errorOf(request: string, response: ApiResponse): Promise<Error> {
  const body = await jsonOf<ErrorBody>(response).catch(() => undefined)
  const why = body?.detail ?? body?.message ?? body?.error_description ?? body?.error
  const fields = body?.errors?.map(({ field, message }) => `${field} ${message}`).join('; ')
  return new Error(`${request} returned ${response.status}${why ? `: ${why}` : ''}${fields ? ` (${fields})` : ''}`)
}
