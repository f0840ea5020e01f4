import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'
import { proxyList } from './https.ts'

interface Message {
  socket: { remoteAddress?: string | undefined }
  headers: IncomingHttpHeaders
}

/**
 * Makes the judge of where a request comes from: the peer of the connection, or, where that is one of our proxies, the
 * last address of `X-Forwarded-For` that is none of them. What a client writes there itself is never believed.
 */
export function clientAddress(trustedProxies: readonly string[]): (message: Message) => string {
  const proxies = proxyList(trustedProxies)
  const isProxy = (address: string) => proxies.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
  return ({ socket, headers }) => {
    const peer = socket.remoteAddress ?? ''
    if (!isProxy(peer)) return peer
    const passed = [headers['x-forwarded-for'] ?? []].flat().join(',').split(',')
    const addresses = passed.map((address) => address.trim()).filter((address) => isIP(address) !== 0)
    return addresses.findLast((address) => !isProxy(address)) ?? peer
  }
}
