import type { IncomingHttpHeaders } from 'node:http'
import { BlockList, isIP, type Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { isHealthPath } from '../server/health.ts'
import { setRawHeaderLines } from '../server/raw-headers.ts'

export interface HttpsOptions {
  /**
   * Public origin of the service, without a path. Redirects use it instead of the request's Host header. If it starts with
   * `http:`, which is intended for clients on the same machine, the service accepts plain HTTP and does not redirect.
   */
  baseUrl: string
  /** CIDRs of the proxies whose `X-Forwarded-Proto` is trusted. */
  trustedProxies: readonly string[]
  /**
   * Called for each request that sends a credential over plain HTTP instead of HTTPS; anyone on the network path could
   * have read the credential.
   */
  onPlaintext?: (peer: Plaintext) => void
}

/** The sender of a credential over plain HTTP. The credential itself is never included. */
export interface Plaintext {
  address: string | null
  /** The header that contained the credential. */
  header: string
}

/** Returns the name of the request header that contains a credential, if any. */
export function credentialHeader(headers: IncomingHttpHeaders): string | undefined {
  return ['authorization', 'x-api-key', 'cookie'].find((name) => headers[name] !== undefined)
}

/** Headers for every response over HTTPS (RFC 6797); pages add a content security policy. */
export const securityHeaders = {
  'strict-transport-security': 'max-age=31536000; includeSubDomains',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
}

const linesOf = (headers: object) => ['', ...Object.entries(headers).map((field) => field.join(': ')), ''].join('\r\n')
const { 'strict-transport-security': _, ...plainHeaders } = securityHeaders
const securityLines = linesOf(securityHeaders)
/** Omits Strict-Transport-Security, which is valid only over HTTPS (RFC 6797 §7.2). */
const plainLines = linesOf(plainHeaders)

/**
 * Sets the security headers and the request id. Redirects plain HTTP with 301, except for health checks and when `baseUrl`
 * is plain HTTP.
 */
export const https = fastifyPlugin<HttpsOptions>(
  async (app, options) => {
    const { secures, redirect } = transport(options)
    const { onPlaintext } = options
    app.addHook('onRequest', (request, reply, done) => {
      if (secures(request, reply)) return done()
      const header = onPlaintext && credentialHeader(request.headers)
      if (header) onPlaintext({ address: request.ip, header })
      if (isHealthPath(request.url)) return done()
      redirect(request, reply)
    })
  },
  { name: 'https' },
)

/**
 * Returns functions that handle transport security, including for requests that the router rejects before any policy
 * runs.
 */
export function transport({ baseUrl, trustedProxies }: HttpsOptions) {
  const isTrusted = trustedPeers(proxyList(trustedProxies))
  const isPlain = baseUrl.startsWith('http:')
  return {
    /** Sets the request id and the security headers; returns false if the request must use HTTPS. */
    secures: (request: FastifyRequest, reply: FastifyReply): boolean => {
      const isOverHttps = isSecure(request, isTrusted)
      const lines = isOverHttps ? securityLines : isPlain ? plainLines : '\r\n'
      setRawHeaderLines(reply, 'transport', `x-request-id: ${request.id}${lines}`)
      return isOverHttps || isPlain
    },
    /** Sends a 301 to the same path and query over HTTPS. */
    redirect: ({ url }: FastifyRequest, reply: FastifyReply) =>
      reply
        .code(301)
        .header('location', baseUrl + pathOf(url))
        .header('cache-control', 'no-store')
        .send(),
  }
}

/**
 * Returns the path and query of a request target. An absolute URL is replaced by `/`, because appending it would change the
 * host (RFC 9112 §3.2.2).
 */
const pathOf = (target: string) => (target.startsWith('/') ? target : '/')

function isSecure({ raw }: FastifyRequest, isTrusted: (socket: Socket) => boolean): boolean {
  if ((raw.socket as TLSSocket).encrypted) return true
  return raw.headers['x-forwarded-proto'] === 'https' && isTrusted(raw.socket)
}

/**
 * Returns a function that tests whether the peer of a connection is a trusted proxy. The result is cached per connection.
 */
export function trustedPeers(proxies: BlockList): (socket: Socket) => boolean {
  const known = new WeakMap<Socket, boolean>()
  return (socket) => {
    const before = known.get(socket)
    if (before !== undefined) return before
    const peer = socket.remoteAddress ?? ''
    const trusted = proxies.check(peer, isIP(peer) === 6 ? 'ipv6' : 'ipv4')
    known.set(socket, trusted)
    return trusted
  }
}

/** Builds a BlockList from addresses and CIDRs. Throws for anything else. */
export function proxyList(entries: readonly string[]): BlockList {
  const list = new BlockList()
  for (const entry of entries) {
    const [address = '', bits, ...rest] = entry.split('/')
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
    const whole = family === 'ipv6' ? 128 : 32
    if (rest.length > 0 || !/^\d{1,3}$/.test(bits ?? '0')) throw new TypeError(`${entry} is not an address or CIDR`)
    list.addSubnet(address, bits === undefined ? whole : Number(bits), family)
  }
  return list
}
