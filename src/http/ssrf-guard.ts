import { lookup as systemLookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

/**
 * Allowed targets: `allowCidrs` permits ranges outside the public internet; if `ports` is omitted, every port is allowed.
 */
export interface AddressPolicy {
  allowHttp: boolean
  allowCidrs: readonly string[]
  ports?: readonly number[]
}

/** The parsed URL, or a reason for its rejection that reveals no address. */
export type TargetVerdict = { ok: true; url: URL } | { ok: false; reason: string }

/** Resolves a host name to all its addresses, in one lookup. */
export type LookupAll = (hostname: string) => Promise<readonly { address: string }[]>

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
 * Validates the syntax, scheme and port of a URL and, if the host is an IP address or localhost, its address. Never
 * resolves names or throws.
 */
export function validateUrl(policy: AddressPolicy, text: string): TargetVerdict {
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
export async function checkTarget(policy: AddressPolicy, text: string, lookup = lookupAll): Promise<TargetVerdict> {
  const verdict = validateUrl(policy, text)
  if (!verdict.ok || knownAddresses(verdict.url.hostname).length > 0) return verdict
  const found = await resolved(lookup, verdict.url.hostname)
  return found.every(({ address }) => addressAllowed(policy, address)) ? verdict : { ok: false, reason: NOT_PUBLIC }
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
