import { isIP, type LookupFunction } from 'node:net'
import { createSecureContext, getCACertificates } from 'node:tls'
import { callbackify } from 'node:util'
import { buildConnector } from 'undici'
import { type AddressPolicy, addressAllowed, blocked, type LookupAll, lookupAll } from './ssrf-guard.ts'

/**
 * Connection options: `connectTimeoutMs` (5 s by default) covers DNS, TCP and TLS; `ca` adds trusted certificate
 * authorities.
 */
export interface ConnectOptions {
  policy: AddressPolicy
  connectTimeoutMs?: number
  lookup?: LookupAll
  ca?: string | string[]
}

/**
 * Creates a connector for an undici Agent: it resolves the name once, connects only to allowed addresses, and also checks
 * the peer address.
 */
export function ssrfSafeConnect(options: ConnectOptions): buildConnector.connector {
  const { policy, lookup = lookupAll, connectTimeoutMs = 5000, ca } = options
  const connect = buildConnector({
    allowH2: false,
    timeout: connectTimeoutMs,
    lookup: vettedLookup(policy, lookup),
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: 1000,
    rejectUnauthorized: true,
    ...(ca && { secureContext: createSecureContext({ ca: [...getCACertificates(), ...[ca].flat()] }) }),
  })
  return (target, done) => {
    // Connections to literal addresses skip the lookup.
    if (isIP(target.hostname) !== 0 && !addressAllowed(policy, target.hostname)) return done(blocked(), null)
    connect(target, (...[error, socket]) => {
      if (error !== null) return done(error, null)
      // If the peer has already disconnected, its address is unknown, and nothing can be sent.
      if (socket.remoteAddress === undefined || addressAllowed(policy, socket.remoteAddress)) return done(null, socket)
      socket.destroy()
      done(blocked(), null)
    })
  }
}

function vettedLookup(policy: AddressPolicy, lookup: LookupAll): LookupFunction {
  const vetted = callbackify(async (hostname: string) => {
    const found = await lookup(hostname)
    if (found.length === 0) throw Object.assign(new Error('no address'), { code: 'ENOTFOUND' })
    if (!found.every(({ address }) => addressAllowed(policy, address))) throw blocked()
    return found.map(({ address }) => ({ address, family: isIP(address) }))
  })
  // Always returns all addresses, as autoSelectFamily expects.
  return (hostname, _, done) => vetted(hostname, done)
}
