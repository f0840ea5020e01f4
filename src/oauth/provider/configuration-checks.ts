import type { AdapterFactory, Configuration } from 'oidc-provider'
import { SigningKey } from '../keys/signing-key.ts'

const minKeyLength = 32
const minModulusBits = 2_048

/**
 * Throws on unsafe oidc-provider settings: defaults meant only for development, and parts of this service that the provider
 * would silently run without.
 */
export function refuseMistakes(settings: Configuration): void {
  const wrong = mistakes(settings)
  if (wrong.length > 0) throw new Error(`The authorization server is not safe to start: ${wrong.join('; ')}`)
}

function mistakes({ adapter, cookies, jwks, features, pkce, clientBasedCORS }: Configuration): string[] {
  const keys = (cookies?.keys ?? []) as readonly unknown[]
  const signing = (jwks?.keys ?? []) as readonly PublicParts[]
  const bits = (modulus = '') => Buffer.from(modulus, 'base64url').length * 8
  const rules: [broken: boolean, mistake: string][] = [
    [keys.length === 0, 'cookies would not be signed'],
    [keys.some((key) => String(key).length < minKeyLength), 'a cookie key is too short'],
    [signing.length === 0, 'tokens would be signed with keys that everybody knows'],
    [signing.some((key) => !isPrivate(key) || bits(key.n) < minModulusBits), 'a signing key is weak or not private'],
    [typeof adapter !== 'function', 'everything would be kept in memory'],
    [typeof adapter === 'function' && !isWhole(adapter as AdapterFactory), 'the store cannot consume or revoke'],
    [features?.devInteractions?.enabled !== false, 'any password would do'],
    [features?.registration?.enabled === true, 'anybody could register a client'],
    [features?.resourceIndicators?.enabled !== true, 'access tokens would have no audience'],
    [pkce?.required === undefined, 'nothing says who must use PKCE'],
    [clientBasedCORS !== undefined, 'CORS is decided in two places'],
  ]
  return rules.filter(([broken]) => broken).map(([, mistake]) => mistake)
}

interface PublicParts {
  n?: string
}

/** SigningKey never exposes its private JWK. */
const isPrivate = (key: PublicParts): boolean => key instanceof SigningKey

function isWhole(adapter: AdapterFactory): boolean {
  const store = adapter('AuthorizationCode')
  return [store.consume, store.revokeByGrantId, store.upsert, store.find].every((part) => typeof part === 'function')
}
