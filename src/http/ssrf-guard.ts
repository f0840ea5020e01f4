import { lookup as systemLookup } from 'node:dns/promises'
import { isIP, type LookupFunction } from 'node:net'
import { createSecureContext, getCACertificates } from 'node:tls'
import { callbackify } from 'node:util'
import ipaddr from 'ipaddr.js'
import { buildConnector } from 'undici'

/**
 * Allowed targets: `allowCidrs` permits ranges outside the public internet; if `ports` is omitted, every port is allowed.
 */
export interface AddressPolicy {
  allowHttp: boolean
  allowCidrs: readonly string[]
  ports?: readonly number[]
}

/** The parsed URL, or a reason for its rejection that reveals no address. */
export type Verdict = { ok: true; url: URL } | { ok: false; reason: string }

/** Resolves a host name to all its addresses, in one lookup. */
export type LookupAll = (hostname: string) => Promise<readonly { address: string }[]>

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

/** The operating system's resolver, which also reads the hosts file. */
export const lookupAll: LookupAll = (hostname) => systemLookup(hostname, { all: true })

/** The error `code` for a blocked connection. */
export const BLOCKED = 'CALLBACK_URL_BLOCKED'

const MAX_URL_LENGTH = 2048
// RFC 1035 section 2.3.4. OpenSSL accepts a server name of at most 255 bytes. A longer name leaves an error in OpenSSL's
// queue that breaks other connections in this process.
const MAX_HOST_LENGTH = 253
const LOOKUP_TIMEOUT_MS = 3000
const NOT_PUBLIC = 'must not point to a private or reserved address'
const FORBIDDEN_TEXT = /[\s\\\p{Cc}]|%00/u

// IANA special-purpose address registries; 168.63.129.16 is a cloud provider's metadata service at a public address.
const DENIED = ranges(
  `0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.31.196.0/24
  192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4
  240.0.0.0/4 168.63.129.16/32 2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20`.split(/\s+/),
)
const GLOBAL = ranges(['0.0.0.0/0', '2000::/3'])

/** Creates the error for a target that the policy blocks; callers identify it by its `code`. */
export function blocked(): Error {
  return Object.assign(new Error(BLOCKED), { code: BLOCKED })
}

/**
 * Validates the syntax of a URL and, if the host is an IP address or localhost, the address. Never resolves names or throws.
 */
export function validateUrl(policy: AddressPolicy, text: string): Verdict {
  const url = URL.parse(text)
  if (url === null) return { ok: false, reason: 'is not a valid URL' }
  const reason = syntaxError(text) ?? targetError(policy, url)
  return reason === null ? { ok: true, url } : { ok: false, reason }
}

/** Returns true if connections to the address are allowed: it is globally routable unicast or within `allowCidrs`. */
export function addressAllowed(policy: AddressPolicy, address: string): boolean {
  if (isIP(address) === 0 || address.includes('%')) return false
  if (within(ranges(policy.allowCidrs), address)) return true
  return within(GLOBAL, address) && !within(DENIED, address)
}

/**
 * Validates a URL and every address of its host. A host that cannot be resolved is accepted, because delivery checks the URL
 * again.
 */
export async function checkTarget(policy: AddressPolicy, text: string, lookup = lookupAll): Promise<Verdict> {
  const verdict = validateUrl(policy, text)
  if (!verdict.ok || knownAddresses(verdict.url.hostname).length > 0) return verdict
  const found = await resolved(lookup, verdict.url.hostname)
  return found.every(({ address }) => addressAllowed(policy, address)) ? verdict : { ok: false, reason: NOT_PUBLIC }
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

function syntaxError(text: string): string | null {
  if (text.length > MAX_URL_LENGTH) return `must be at most ${MAX_URL_LENGTH} characters`
  if (FORBIDDEN_TEXT.test(text)) return 'must not contain white space, control characters or backslashes'
  if (!/^https?:\/\/[^/?#]/i.test(text)) return 'must be an absolute https URL'
  if (text.includes('#')) return 'must not have a fragment'
  return /^https?:\/\/[^/?]*@/i.test(text) ? 'must not have a user name or password' : null
}

function targetError(policy: AddressPolicy, url: URL): string | null {
  if (url.hostname.length > MAX_HOST_LENGTH) return `must have a host name of at most ${MAX_HOST_LENGTH} characters`
  if (url.protocol !== 'https:' && !policy.allowHttp) return 'must use https'
  const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80))
  if (port === 0 || policy.ports?.includes(port) === false) return 'must use an allowed port'
  return knownAddresses(url.hostname).every((address) => addressAllowed(policy, address)) ? null : NOT_PUBLIC
}

/**
 * Returns the addresses of a host that needs no DNS lookup; an empty list for an ordinary name (RFC 6761 section 6.3).
 */
function knownAddresses(hostname: string): string[] {
  const host = hostname.replace(/^\[|\]$/g, '').replace(/\.+$/, '')
  if (isIP(host) !== 0) return [host]
  return host === 'localhost' || host.endsWith('.localhost') ? ['127.0.0.1', '::1'] : []
}

async function resolved(lookup: LookupAll, hostname: string): Promise<readonly { address: string }[]> {
  const { promise: late, resolve } = Promise.withResolvers<[]>()
  const timer = setTimeout(resolve, LOOKUP_TIMEOUT_MS, [])
  return Promise.race([lookup(hostname), late])
    .catch(() => [])
    .finally(() => clearTimeout(timer))
}

/** Parses CIDRs. Invalid entries are skipped, so they allow nothing. */
function ranges(cidrs: readonly string[]) {
  return cidrs.filter((cidr) => ipaddr.isValidCIDR(cidr)).map((cidr) => ipaddr.parseCIDR(cidr))
}

function within(blocks: ReturnType<typeof ranges>, address: string): boolean {
  const parsed = ipaddr.parse(address)
  return blocks.some(([base, bits]) => base.kind() === parsed.kind() && parsed.match(base, bits))
}
