import type { AdapterFactory, Configuration } from 'oidc-provider'
import { algorithmOf } from '../keys/key-algorithms.ts'
import { SigningKey } from '../keys/signing-key.ts'

const minKeyLength = 32

/**
 * Throws on unsafe oidc-provider settings: development defaults, and missing settings that do not prevent the provider
 * from starting.
 */
export function assertSafeSettings(settings: Configuration): void {
  const violations = violationsOf(settings)
  if (violations.length > 0) throw new Error(`The authorization server is not safe to start: ${violations.join('; ')}`)
}

function violationsOf({ adapter, cookies, jwks, features, pkce, clientBasedCORS }: Configuration): string[] {
  const keys = (cookies?.keys ?? []) as readonly unknown[]
  const signing = (jwks?.keys ?? []) as readonly unknown[]
  const rules: [broken: boolean, violation: string][] = [
    [keys.length === 0, 'cookies would not be signed'],
    [keys.some((key) => String(key).length < minKeyLength), 'a cookie key is too short'],
    [signing.length === 0, 'tokens would be signed with publicly known keys'],
    [!signing.every(isSafe), 'a signing key is weak or not private'],
    [typeof adapter !== 'function', 'all records would be stored only in memory'],
    [
      typeof adapter === 'function' && !isWhole(adapter as AdapterFactory),
      'the adapter cannot consume or revoke records',
    ],
    [features?.devInteractions?.enabled !== false, 'any password would be accepted'],
    [features?.registration?.enabled === true, 'anyone could register a client'],
    [features?.resourceIndicators?.enabled !== true, 'access tokens would have no audience'],
    [pkce?.required === undefined, 'it is not set which clients must use PKCE'],
    [clientBasedCORS !== undefined, 'CORS is configured twice, in the provider and in the service'],
  ]
  return rules.filter(([broken]) => broken).map(([, violation]) => violation)
}

/**
 * Returns whether a signing key is private and long enough for its algorithm. Checks the class, because SigningKey
 * never exposes its private JWK.
 */
const isSafe = (key: unknown): boolean => key instanceof SigningKey && algorithmOf(key.keyObject()) !== undefined

function isWhole(adapter: AdapterFactory): boolean {
  const store = adapter('AuthorizationCode')
  return [store.consume, store.revokeByGrantId, store.upsert, store.find].every((part) => typeof part === 'function')
}
