import { type IncomingMessage, request as plainRequest } from 'node:http'
import { request as secureRequest } from 'node:https'
import { setTimeout as wait } from 'node:timers/promises'

/** A server to measure. */
export interface Target {
  name: 'reference' | 'service'
  pid: number
  port: number
  tls: boolean
}

export interface HttpResponse {
  headers: IncomingMessage['headers']
  body: string
}

type Headers = Record<string, string>

/** The header fields that a TLS-terminating proxy adds for a service without TLS. */
export const proxied = (tls: boolean): Headers => (tls ? {} : { 'x-forwarded-proto': 'https' })

type Address = Pick<Target, 'port' | 'tls'>

export interface HttpRequest {
  method: string
  path: string
  headers?: Headers
  body?: string
}

/** Sends one request; resolves with the response, whose body has not been read yet. */
export function send({ port, tls }: Address, { method, path, headers, body = '' }: HttpRequest) {
  const all = { ...proxied(tls), ...headers, ...(body !== '' && { 'content-length': Buffer.byteLength(body) }) }
  const options = { host: '127.0.0.1', port, method, path, headers: all, agent: false as const }
  return new Promise<IncomingMessage>((resolve, reject) => {
    const outgoing = tls ? secureRequest({ ...options, rejectUnauthorized: false }) : plainRequest(options)
    outgoing.on('response', resolve).on('error', reject).end(body)
  })
}

const maxAttempts = 10

/**
 * Sends one request and reads the response; throws unless it has the expected status. Repeats requests that get 503 with
 * Retry-After, because a service may be busy just after its start.
 */
export async function expectResponse(address: Address, expected: number, request: HttpRequest): Promise<HttpResponse> {
  const { method, path } = request
  for (let attempt = 1; ; attempt++) {
    const { statusCode, headers, body } = await responseTo(address, request)
    if (statusCode === expected) return { headers, body }
    const retryAfter = headers['retry-after']
    if (statusCode !== 503 || retryAfter === undefined || attempt === maxAttempts)
      throw new Error(`${method} ${path} returned ${statusCode} instead of ${expected}: ${body}`)
    await wait(Number(retryAfter) * 1_000)
  }
}

async function responseTo(address: Address, request: HttpRequest) {
  const response = await send(address, request)
  const body = (await response.setEncoding('utf8').toArray()).join('')
  return { statusCode: response.statusCode, headers: response.headers, body }
}

/** Returns a request as sent over the wire; both servers get the same bytes. */
export function requestText(method: string, path: string, headers: Headers, body = ''): string {
  const all = { host: 'localhost', ...headers, ...(body && { 'content-length': String(Buffer.byteLength(body)) }) }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`
}

const headEnd = Buffer.from('\r\n\r\n')
/** The `Content-Length` header name in both spellings that the servers use. */
const lengthNames = ['content-length', 'Content-Length'].map((name) => Buffer.from(`\r\n${name}: `))
const digit = (byte: number | undefined) => (byte ?? 0) - 48

/** Returns the status of the response at the start of the buffer. */
export const statusOf = (bytes: Buffer): number => digit(bytes[9]) * 100 + digit(bytes[10]) * 10 + digit(bytes[11])

/**
 * Returns the length of the response at the start of the buffer, or 0 while it cannot be known. Supports only what the
 * servers send: 204 and 304 without content, and responses with a Content-Length or in chunks. Throws on any other
 * response.
 */
export function lengthOf(bytes: Buffer): number {
  const end = bytes.indexOf(headEnd)
  if (end < 0) return 0
  const status = statusOf(bytes)
  if (status === 204 || status === 304) return end + 4
  const found = lengthNames.map((name) => ({ at: bytes.indexOf(name), name })).find(({ at }) => at >= 0 && at < end)
  if (!found && isChunked(bytes, end)) return chunkedLength(bytes, end + 4)
  if (!found) throw new Error(`A response without Content-Length: ${bytes.toString('latin1', 0, end)}`)
  let length = 0
  for (let at = found.at + found.name.length; bytes[at] !== 13; at++) length = length * 10 + digit(bytes[at])
  return end + 4 + length
}

const chunkedField = Buffer.from('\r\nTransfer-Encoding: chunked\r\n')
const isChunked = (bytes: Buffer, headEnd: number) => {
  const at = bytes.indexOf(chunkedField)
  return at >= 0 && at < headEnd
}

/** Returns where the chunks from `start` end, or 0 while they are incomplete (RFC 9112, section 7.1, without trailers). */
function chunkedLength(bytes: Buffer, start: number): number {
  for (let at = start; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at)
    if (lineEnd < 0) return 0
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16)
    at = lineEnd + 2 + size + 2
    if (size === 0) return at
    if (at > bytes.length) return 0
  }
}
