import { readFileSync } from 'node:fs'
import { Agent, request } from 'undici'
import type { BootstrapClient } from './nodes.ts'

export interface Response {
  status: number
  headers: Record<string, string | string[] | undefined>
  bytes: Buffer
  // biome-ignore lint/suspicious/noExplicitAny: checks read a response field by field
  json: () => any
}

/** A response, or the reason why there is none: the connection was reset or closed, or no data arrived for a minute. */
export type Outcome = Response | { status: 'reset' | 'no response'; reason: string }

export interface HttpOptions {
  headers?: Record<string, string>
  body?: unknown
}

export interface ClusterClient {
  /** Sends one request with the client's token; never rejects. */
  send: (method: Method, path: string, options?: HttpOptions) => Promise<Outcome>
  close: () => Promise<void>
}

export type Method = 'GET' | 'POST' | 'PUT'

const timeoutMs = 60_000

/**
 * Opens a client of the cluster and gets a token. Keeps its connections to nginx open, and alternates between HTTP/2
 * and HTTP/1.1.
 */
export async function openClient(
  baseUrl: string,
  authorityFile: string,
  { id, secret }: BootstrapClient,
): Promise<ClusterClient> {
  const connect = { ca: readFileSync(authorityFile) }
  const timeouts = { headersTimeout: timeoutMs, bodyTimeout: timeoutMs }
  const agents = [true, false].map((allowH2) => new Agent({ connect, allowH2, connections: 64, ...timeouts }))
  let sent = 0
  const raw = async (
    method: Method,
    path: string,
    headers: Record<string, string>,
    body?: string,
  ): Promise<Outcome> => {
    const dispatcher = agents[sent++ % agents.length]
    try {
      const response = await request(baseUrl + path, { method, headers, body, dispatcher })
      const bytes = Buffer.from(await response.body.arrayBuffer())
      return { status: response.statusCode, headers: response.headers, bytes, json: () => JSON.parse(bytes.toString()) }
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      return { status: code?.includes('TIMEOUT') ? 'no response' : 'reset', reason: `${code ?? ''} ${message}`.trim() }
    }
  }
  const basic = { authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}` }
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  const granted = await raw('POST', '/oauth/token', { ...basic, ...form }, 'grant_type=client_credentials')
  if (granted.status !== 200 || !('json' in granted)) throw new Error(`The token request got ${granted.status}`)
  const bearer = { authorization: `Bearer ${granted.json().access_token}` }
  const json = { 'content-type': 'application/json' }
  return {
    send: (method, path, { headers, body } = {}) =>
      body === undefined
        ? raw(method, path, { ...bearer, ...headers })
        : raw(method, path, { ...bearer, ...json, ...headers }, JSON.stringify(body)),
    close: async () => void (await Promise.all(agents.map((agent) => agent.destroy()))),
  }
}
