import type { IncomingMessage } from 'node:http'
import { BlockList, isIP, type Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { Problem } from './problem.ts'

export interface HttpsOptions {
  /** Where clients reach the service, without a path: redirects name it, never the Host that was sent. */
  baseUrl: string
  /** CIDRs of the proxies whose `X-Forwarded-Proto` is believed. */
  trustedProxies: readonly string[]
}

/** Headers of every answer that travels over HTTPS (RFC 6797); pages add a content security policy of their own. */
export const securityHeaders = {
  'strict-transport-security': 'max-age=31536000; includeSubDomains',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
}

const urlLimitCharacters = 8_192

const always = Object.entries(securityHeaders)

/** Headers that a request may carry only once: with two, a proxy and we could each believe another one. */
const single = new Set(['host', 'authorization', 'content-length', 'content-type'])

/** Plain HTTP → 301; over HTTPS the security headers and the request id; 400 for ambiguous requests (RFC 9112 §3.2). */
export const https = fastifyPlugin<HttpsOptions>(
  async (app, { baseUrl, trustedProxies }) => {
    const isTrusted = trustedPeers(proxyList(trustedProxies))
    app.addHook('onRequest', (request, reply, done) => {
      reply.header('x-request-id', request.id)
      if (!isSecure(request, isTrusted)) {
        reply
          .code(301)
          .header('location', baseUrl + pathOf(request.url))
          .header('cache-control', 'no-store')
          .send()
        return
      }
      for (const [name, value] of always) reply.header(name, value)
      if (request.url.length > urlLimitCharacters) {
        return done(new Problem('URI_TOO_LONG', `The request target may have ${urlLimitCharacters} characters`))
      }
      const repeated = repeatedHeader(request.raw)
      done(repeated ? new Problem('INVALID_INPUT', `The header ${repeated} may be sent only once`) : undefined)
    })
  },
  { name: 'https' },
)

/** The path and query of a request target; an absolute URL would run into the name of our host (RFC 9112 §3.2.2). */
const pathOf = (target: string) => (target.startsWith('/') ? target : '/')

function isSecure({ raw }: FastifyRequest, isTrusted: (socket: Socket) => boolean): boolean {
  if ((raw.socket as TLSSocket).encrypted) return true
  return raw.headers['x-forwarded-proto'] === 'https' && isTrusted(raw.socket)
}

/** Whether the peer of a connection is one of the proxies; asked once a connection. */
function trustedPeers(proxies: BlockList): (socket: Socket) => boolean {
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

function repeatedHeader({ headers, rawHeaders: raw }: IncomingMessage): string | undefined {
  // As many names as lines: nothing was sent twice, as nearly always.
  if (Object.keys(headers).length * 2 === raw.length) return undefined
  let seen = ''
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at] as string
    const lower = name.toLowerCase()
    if (!single.has(lower)) continue
    if (seen.includes(`${lower},`)) return lower
    seen += `${lower},`
  }
  return undefined
}
