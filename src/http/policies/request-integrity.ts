import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import fastifyPlugin from 'fastify-plugin'
import { Problem, type ProblemCode } from '../problems/problem.ts'

/** The maximum length of a request target, in characters. */
export const maxUrlLength = 8_192
const maxHeaderFields = 100

/** Headers that may occur only once. If one were repeated, a proxy and this service could use different values. */
const single = new Set([
  'host',
  'authorization',
  'content-length',
  'content-type',
  'if-modified-since',
  'if-unmodified-since',
  'if-range',
  'origin',
  'x-api-key',
  'idempotency-key',
])

/**
 * Prevents request smuggling by rejecting malformed and ambiguous requests before they are authenticated. Responds with
 * 414 if the target is too long, 431 if there are too many header fields, 501 for a transfer coding other than chunked,
 * and otherwise 400. A target in absolute form is reduced to its path (RFC 9112 §3.2.2).
 */
export const requestIntegrity = fastifyPlugin<{ baseUrl: string }>(
  async (app, { baseUrl }) => {
    const origin = baseUrl.toLowerCase()
    const isHost = hostCheck()
    // The end of a malformed request is unknown, so later bytes on the same connection must not be treated as requests.
    const broken = new WeakSet<Socket>()
    app.addHook('onRequest', ({ raw }, _reply, done) => {
      const flaw = broken.has(raw.socket) ? afterMalformed() : flawOf(raw, origin, isHost)
      // HTTP/2 separates requests by frames, and one connection may carry requests from many clients.
      if (flaw?.headers?.connection && raw.httpVersionMajor === 1) broken.add(raw.socket)
      done(flaw)
    })
  },
  { name: 'requestIntegrity', dependencies: ['errorHandler', 'https'] },
)

const afterMalformed = () => closing('INVALID_INPUT', 'An earlier request on this connection was malformed')

/** Creates a problem whose response closes the connection. */
const closing = (code: ProblemCode, detail: string) => new Problem(code, detail, { headers: { connection: 'close' } })

function flawOf(raw: IncomingMessage, origin: string, isHost: HostCheck): Problem | undefined {
  const url = raw.url as string
  if (url.length > maxUrlLength) {
    return new Problem('URI_TOO_LONG', `The request target may have at most ${maxUrlLength} characters`)
  }
  if (raw.rawHeaders.length > 2 * maxHeaderFields) {
    return closing('HEADERS_TOO_LARGE', `A request may have at most ${maxHeaderFields} header fields`)
  }
  if (url[0] !== '/' && !reduceToPath(raw, origin)) {
    return closing('INVALID_INPUT', 'The request target is not a path of this service')
  }
  const flaw = versionFlaw(raw) ?? hostFlaw(raw, isHost) ?? framingFlaw(raw)
  if (flaw) return flaw
  const repeated = repeatedHeader(raw)
  if (repeated) return closing('INVALID_INPUT', `The header ${repeated} may be sent only once`)
  return isDecodable(url) ? undefined : new Problem('INVALID_INPUT', 'The query is not percent-encoded UTF-8')
}

/** Returns whether the query is percent-encoded UTF-8 (RFC 3986 §2.1, §2.5); the router checks the path. */
function isDecodable(url: string): boolean {
  const at = url.indexOf('?')
  if (at < 0 || !url.includes('%', at)) return true
  try {
    decodeURIComponent(url.slice(at))
    return true
  } catch {
    return false
  }
}

/**
 * Reduces `https://our.host/path` to `/path`. Returns true for such a URL and for `OPTIONS *`, false for any other target
 * that is not a path.
 */
function reduceToPath(raw: IncomingMessage, origin: string): boolean {
  const url = raw.url as string
  if (url === '*') return raw.method === 'OPTIONS'
  const path = url.slice(origin.length)
  if (url.slice(0, origin.length).toLowerCase() !== origin || !/^([/?]|$)/.test(path)) return false
  raw.url = path.startsWith('/') ? path : `/${path}`
  return true
}

/**
 * Rejects unsupported versions: the parser also accepts HTTP/0.9 and 2.0 in the request line. A real HTTP/2 request has a
 * stream.
 */
function versionFlaw(raw: IncomingMessage): Problem | undefined {
  if (raw.httpVersion === '1.1' || raw.httpVersion === '1.0' || 'stream' in raw) return undefined
  return closing('INVALID_INPUT', 'The HTTP version is not supported: use HTTP/1.1')
}

type HostCheck = (host: string) => boolean

/** Returns a Host check that caches the last valid host, because clients send only a few different hosts. */
function hostCheck(): HostCheck {
  let lastValid: string | undefined
  return (host) => {
    if (host === lastValid) return true
    if (!hostForm.test(host)) return false
    lastValid = host
    return true
  }
}

const hostForm = /^(\[[\da-f:.]+\]|[\w.~!$&'()*+,;=%-]+)(:\d{0,5})?$/i

function hostFlaw({ headers: { host }, httpVersion }: IncomingMessage, isHost: HostCheck): Problem | undefined {
  if (host === undefined && httpVersion === '1.0') return undefined
  return isHost(host ?? '') ? undefined : closing('INVALID_INPUT', 'The Host header is missing or malformed')
}

function framingFlaw({ headers, httpVersion }: IncomingMessage): Problem | undefined {
  const coding = headers['transfer-encoding']
  if (coding === undefined) return undefined
  if (httpVersion === '1.0') return closing('INVALID_INPUT', 'Transfer-Encoding requires HTTP/1.1')
  return coding.toLowerCase() === 'chunked'
    ? undefined
    : closing('NOT_IMPLEMENTED', 'The only supported transfer coding is chunked')
}

function repeatedHeader({ headers, rawHeaders: raw }: IncomingMessage): string | undefined {
  // The usual case: if `headers` has as many names as `rawHeaders`, no name is repeated.
  if (Object.keys(headers).length * 2 === raw.length) return undefined
  const seen = new Set<string>()
  for (let at = 0; at < raw.length; at += 2) {
    const name = (raw[at] as string).toLowerCase()
    if (single.has(name) && seen.has(name)) return name
    seen.add(name)
  }
  return undefined
}
