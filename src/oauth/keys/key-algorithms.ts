import { createPublicKey, type KeyObject } from 'node:crypto'
import type { JWK } from 'jose'

/** Public keys that may change while the service runs. */
export interface PublicKeys {
  readonly publicKeys: ReadonlyMap<string, KeyObject>
  /** Fetches the keys again, at most every 30 seconds; called when a token refers to an unknown key. */
  refresh?: () => Promise<void>
}

/** The algorithms with which this service can sign tokens (RFC 7518 §3.1, RFC 8037). */
export const signingAlgorithms = ['RS256', 'ES256', 'EdDSA'] as const
export type SigningAlgorithm = (typeof signingAlgorithms)[number]

const minModulusBits = 2_048

/**
 * Returns the only algorithm that the key may be used with (RFC 8725 §3.1), or undefined if the key is not supported.
 */
export function algorithmOf({ type, asymmetricKeyType, asymmetricKeyDetails }: KeyObject): string | undefined {
  if (type !== 'public') return undefined
  if (asymmetricKeyType === 'ed25519') return 'EdDSA'
  if (asymmetricKeyType === 'ec') return asymmetricKeyDetails?.namedCurve === 'prime256v1' ? 'ES256' : undefined
  const bits = asymmetricKeyType === 'rsa' ? (asymmetricKeyDetails?.modulusLength ?? 0) : 0
  return bits >= minModulusBits ? 'RS256' : undefined
}

/** Returns the usable keys in a JWK set (RFC 7517 §5) by `kid`: only signing keys of a supported type and size. */
export function usableKeys(set: unknown): Map<string, KeyObject> {
  const keys = (set as { keys?: unknown } | null)?.keys
  if (!Array.isArray(keys)) throw new Error('The document is not a JWK set')
  return new Map(keys.flatMap((jwk) => usable(jwk as JWK)))
}

function usable(jwk: JWK | null): [string, KeyObject][] {
  if (typeof jwk?.kid !== 'string' || (jwk.use ?? 'sig') !== 'sig') return []
  if (jwk.key_ops && !jwk.key_ops.includes('verify')) return []
  const key = imported(jwk)
  const algorithm = key && algorithmOf(key)
  return algorithm !== undefined && (jwk.alg ?? algorithm) === algorithm ? [[jwk.kid, key as KeyObject]] : []
}

/** Imports a JWK. Returns undefined for an unknown or malformed key, which RFC 7517 §5 says to ignore. */
function imported({ kty, n, e, crv, x, y }: JWK): KeyObject | undefined {
  try {
    return createPublicKey({ key: { kty, n, e, crv, x, y } as Record<string, string>, format: 'jwk' })
  } catch {
    return undefined
  }
}
