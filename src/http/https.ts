import { BlockList, isIP } from 'node:net'
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

/** Headers that a request may carry only once: with two, a proxy and we could each believe another one. */
const single = new Set(['host', 'authorization', 'content-length', 'content-type'])

/** Plain HTTP → 301; over HTTPS the security headers and the request id; 400 for ambiguous requests (RFC 9112 §3.2). */
export const https = fastifyPlugin<HttpsOptions>(
  async (app, { baseUrl, trustedProxies }) => {
    const trusted = proxyList(trustedProxies)
    app.addHook('onRequest', (request, reply, done) => {
      reply.header('x-request-id', request.id)
      if (!isSecure(request, trusted)) {
        reply
          .code(301)
          .header('location', baseUrl + pathOf(request.url))
          .header('cache-control', 'no-store')
          .send()
        return
      }
      reply.headers(securityHeaders)
      if (request.url.length > urlLimitCharacters) {
        return done(new Problem('URI_TOO_LONG', `The request target may have ${urlLimitCharacters} characters`))
      }
      const repeated = repeatedHeader(request.raw.rawHeaders)
      done(repeated ? new Problem('INVALID_INPUT', `The header ${repeated} may be sent only once`) : undefined)
    })
  },
  { name: 'https' },
)

/** The path and query of a request target; an absolute URL would run into the name of our host (RFC 9112 §3.2.2). */
const pathOf = (target: string) => (target.startsWith('/') ? target : '/')

function isSecure({ raw }: FastifyRequest, trusted: BlockList): boolean {
  if ((raw.socket as TLSSocket).encrypted) return true
  if (raw.headers['x-forwarded-proto'] !== 'https') return false
  const peer = raw.socket.remoteAddress ?? ''
  return trusted.check(peer, isIP(peer) === 6 ? 'ipv6' : 'ipv4')
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

function repeatedHeader(raw: string[]): string | undefined {
  let seen = ''
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at] as string
    // Cheap first: only four lengths can matter.
    if (name.length !== 4 && name.length !== 12 && name.length !== 13 && name.length !== 14) continue
    const lower = name.toLowerCase()
    if (!single.has(lower)) continue
    if (seen.includes(`${lower},`)) return lower
    seen += `${lower},`
  }
  return undefined
}
