import type { KeyObject } from 'node:crypto'
import { Agent, request } from 'undici'
import { Problem } from '../../http/problems/problem.ts'
import { ssrfSafeConnect } from '../../http/ssrf-connector.ts'
import { type AddressPolicy, type LookupAll, validateUrl } from '../../http/ssrf-guard.ts'
import { type PublicKeys, usableKeys } from '../keys/key-algorithms.ts'

export interface TrustedIssuerKeysOptions {
  /** The issuer, exactly as in the `iss` claim of its tokens. */
  issuer: string
  /** Determines the addresses from which the issuer's documents may be fetched. */
  policy: AddressPolicy
  /** Returns the current time in ms since the epoch. */
  now: () => number
  /** Called with the reason if keys could not be fetched. */
  onError: (error: unknown) => void
  lookup?: LookupAll
}

/** A trusted issuer's public keys. */
export interface TrustedIssuerKeys extends PublicKeys {
  refresh: () => Promise<void>
  /** Refreshes keys older than ten minutes in the background. */
  keepFresh: () => void
  close: () => Promise<void>
}

const cooldownMs = 30_000
const freshMs = 600_000
/**
 * Keys that have not been refreshed for this long are no longer trusted, because the issuer may have withdrawn them.
 */
const staleMs = 24 * 3_600_000
const timeoutMs = 5_000
const maxBytes = 262_144

/**
 * Returns a trusted issuer's keys, located through its discovery document (OpenID Connect Discovery §4, RFC 8414 §3).
 * Fetches them for the first token, and again for an unknown `kid`, at most every 30 seconds. Does not follow
 * redirects.
 */
export function trustedIssuerKeys({
  issuer,
  policy,
  now,
  onError,
  lookup,
}: TrustedIssuerKeysOptions): TrustedIssuerKeys {
  const agent = new Agent({ connect: ssrfSafeConnect({ policy, ...(lookup && { lookup }) }), connections: 1 })
  let keys: ReadonlyMap<string, KeyObject> = new Map()
  let [fetchedAt, triedAt] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY]
  let fetching: Promise<void> | undefined
  let failed = false

  const fetchKeys = async () => {
    keys = usableKeys(await jsonAt(agent, policy, await keySetUrl(agent, policy, issuer)))
    fetchedAt = now()
  }
  const attempt = () => {
    triedAt = now()
    fetching = fetchKeys()
      .then(() => {
        failed = false
      })
      .catch((error) => {
        failed = true
        onError(error)
      })
      .finally(() => {
        fetching = undefined
      })
    return fetching
  }
  const refresh = async () => {
    if (fetching) await fetching
    else if (now() - triedAt >= cooldownMs) await attempt()
    if (failed) throw unavailable()
  }
  return {
    get publicKeys() {
      return now() - fetchedAt < staleMs ? keys : new Map()
    },
    refresh,
    keepFresh: () => {
      const due = now() - fetchedAt >= freshMs && now() - triedAt >= cooldownMs
      if (due && keys.size > 0 && !fetching) void attempt()
    },
    close: () => agent.destroy(),
  }
}

const unavailable = () =>
  new Problem('SERVICE_UNAVAILABLE', 'The keys of the access token’s issuer could not be fetched', {
    headers: { 'retry-after': String(cooldownMs / 1_000) },
  })

async function keySetUrl(agent: Agent, policy: AddressPolicy, issuer: string): Promise<string> {
  const metadataUrl = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
  const found = (await jsonAt(agent, policy, metadataUrl)) as { issuer?: unknown; jwks_uri?: unknown } | null
  // Compared as strings (RFC 8414 §3.3): a document from a different issuer is rejected.
  if (found?.issuer !== issuer) throw new Error(`${metadataUrl} names another issuer`)
  if (typeof found.jwks_uri !== 'string') throw new Error(`${metadataUrl} has no jwks_uri`)
  return found.jwks_uri
}

async function jsonAt(agent: Agent, policy: AddressPolicy, url: string): Promise<unknown> {
  const verdict = validateUrl(policy, url)
  if (!verdict.ok) throw new Error(`${url} ${verdict.reason}`)
  const signal = AbortSignal.timeout(timeoutMs)
  const headers = { accept: 'application/json' }
  const response = await request(verdict.url, { dispatcher: agent, signal, headers })
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response.body as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxBytes) throw new Error(`The response of ${url} has more than ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  if (response.statusCode !== 200) throw new Error(`${url} responded with ${response.statusCode}`)
  return JSON.parse(Buffer.concat(chunks).toString())
}
