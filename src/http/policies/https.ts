import type { IncomingHttpHeaders } from 'node:http'
import { BlockList, isIP, type Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { isHealthPath } from '../server/health.ts'
import { setRawHeaderLines } from '../server/raw-headers.ts'

export interface HttpsOptions {
  /**
   * Where clients reach the service, without a path: redirects name it, never the Host that was sent. With `http:`, which
   * is for clients on this machine, plain HTTP is served and nothing is redirected.
   */
  baseUrl: string
  /** CIDRs of the proxies whose `X-Forwarded-Proto` is believed. */
  trustedProxies: readonly string[]
  /** Is told of each credential that came over plain HTTP, where anybody on the way could read it. */
  onPlaintext?: (peer: Plaintext) => void
}

/** Who sent a credential over plain HTTP; never the credential. */
export interface Plaintext {
  address: string | null
  /** The header it was in. */
  header: string
}

/** The header of a request that carries a credential, if there is one. */
export function credentialHeader(headers: IncomingHttpHeaders): string | undefined {
  return ['authorization', 'x-api-key', 'cookie'].find((name) => headers[name] !== undefined)
}

/** Headers of every answer that travels over HTTPS (RFC 6797); pages add a content security policy of their own. */
export const securityHeaders = {
  'strict-transport-security': 'max-age=31536000; includeSubDomains',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
}

const linesOf = (headers: object) => ['', ...Object.entries(headers).map((field) => field.join(': ')), ''].join('\r\n')
const { 'strict-transport-security': _, ...plainHeaders } = securityHeaders
const securityLines = linesOf(securityHeaders)
/** Strict-Transport-Security counts over HTTPS only (RFC 6797 §7.2). */
const plainLines = linesOf(plainHeaders)

/** Plain HTTP → 301, but for the health of the service and where it is what is served; security headers; the request id. */
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

/** How a request travelled, for the policy and for what the router refuses before any policy. */
export function transport({ baseUrl, trustedProxies }: HttpsOptions) {
  const isTrusted = trustedPeers(proxyList(trustedProxies))
  const isPlain = baseUrl.startsWith('http:')
  return {
    /** Adds the headers of every response, and those of its transport; false where the request must come over HTTPS. */
    secures: (request: FastifyRequest, reply: FastifyReply): boolean => {
      const isOverHttps = isSecure(request, isTrusted)
      const lines = isOverHttps ? securityLines : isPlain ? plainLines : '\r\n'
      setRawHeaderLines(reply, 'transport', `x-request-id: ${request.id}${lines}`)
      return isOverHttps || isPlain
    },
    /** 301 to the same path and query over HTTPS. */
    redirect: ({ url }: FastifyRequest, reply: FastifyReply) =>
      reply
        .code(301)
        .header('location', baseUrl + pathOf(url))
        .header('cache-control', 'no-store')
        .send(),
  }
}

/** The path and query of a request target; an absolute URL would run into the name of our host (RFC 9112 §3.2.2). */
const pathOf = (target: string) => (target.startsWith('/') ? target : '/')

function isSecure({ raw }: FastifyRequest, isTrusted: (socket: Socket) => boolean): boolean {
  if ((raw.socket as TLSSocket).encrypted) return true
  return raw.headers['x-forwarded-proto'] === 'https' && isTrusted(raw.socket)
}

/** Whether the peer of a connection is one of the proxies; asked once a connection. */
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

/** Addresses and CIDRs as one list. Throws on what is neither. */
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
