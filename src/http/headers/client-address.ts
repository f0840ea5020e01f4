import type { IncomingHttpHeaders } from 'node:http'
import { isIP, isIPv4 } from 'node:net'
import ipaddr from 'ipaddr.js'
import { proxyList } from '../policies/https.ts'

interface Message {
  socket: { remoteAddress?: string | undefined }
  headers: IncomingHttpHeaders
}

/**
 * Returns a function that determines the client address of a request: the peer address or, if the peer is a trusted proxy,
 * the last entry in `X-Forwarded-For` that is not a trusted proxy. If that entry is not a valid address, the peer address is
 * used, so clients cannot spoof an address (T-LIM-02).
 */
export function clientAddress(trustedProxies: readonly string[]): (message: Message) => string {
  const proxies = proxyList(trustedProxies)
  const isProxy = (address: string) => proxies.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
  return ({ socket, headers }) => {
    const peer = socket.remoteAddress ?? ''
    const forwarded = headers['x-forwarded-for']
    if (forwarded === undefined || !isProxy(peer)) return peer
    const passed = [forwarded].flat().join(',').split(',')
    const first = passed.map(addressIn).findLast((address) => address === null || !isProxy(address))
    return first ?? peer
  }
}

const withPort = /^(?:\[([^\]]*)\]|([^:]*))(?::\d{1,5})?$/

/**
 * Extracts the address from an entry, which may include a port: `192.0.2.1:5678`, `[2001:db8::1]` or `[2001:db8::1]:5678`.
 */
function addressIn(entry: string): string | null {
  const text = entry.trim()
  const [, bracketed, plain] = withPort.exec(text) ?? []
  const address = bracketed ?? plain ?? text
  return isIP(address) === 0 || address.includes('%') ? null : address
}

/**
 * Returns the key for per-address rate limits: the IPv4 address, or the /64 prefix of an IPv6 address, which usually belongs
 * to a single subscriber.
 */
export function networkOf(address: string): string {
  if (isIPv4(address) || !ipaddr.isValid(address)) return address
  const parsed = ipaddr.process(address)
  return parsed.kind() === 'ipv4' ? parsed.toString() : `${parsed.toNormalizedString().split(':', 4).join(':')}::/64`
}
