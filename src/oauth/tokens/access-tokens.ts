import type { KeyObject } from 'node:crypto'
import { type JWTHeaderParameters, type JWTPayload, jwtVerify } from 'jose'
import { algorithmOf, type PublicKeys } from '../keys/key-algorithms.ts'

/** Tolerated clock difference, in seconds. */
export const clockSkewSeconds = 30

const maxToken = 8_192
const maxKid = 200
const types: unknown[] = ['JWT', 'at+jwt']

export interface AccessTokenClaims {
  sub: string
  client_id: string
  scope: string
  /** The token's id; null if a trusted issuer's token has no `jti`. */
  jti: string | null
  /** Seconds since the epoch. */
  exp: number
  /** The id of the key that signed the token; null for the shared secret. */
  kid: string | null
}

export interface TokenRules {
  issuer: string
  audience: string
  keys: PublicKeys
  /** Verifies HS256 tokens; if absent, HS256 tokens are rejected. */
  sharedSecret?: KeyObject | null
}

/** Verifies an access token as of the given time (epoch ms). */
export type ReadAccessToken = (token: string, nowMs: number) => Promise<AccessTokenClaims>

/** Thrown if the keys could not be fetched; the token may still be valid. */
export class KeysUnavailable extends Error {}

/**
 * Creates the verifier for this service's JWT access tokens (RFC 9068 §4, RFC 8725). The key, either the service's own
 * or the shared secret (HS256), determines the algorithm; `iss`, `aud` and the times are checked. The verifier throws
 * jose's JWTExpired for an expired token, KeysUnavailable if keys could not be fetched, and other errors for any other
 * invalid token.
 */
export function accessTokenReader(rules: TokenRules): ReadAccessToken {
  const { audience } = rules
  const read = signedBy(rules)
  return async (token, nowMs) => {
    const { payload, header } = await read(token, nowMs)
    return checked(payload, header, audience)
  }
}

type Verified = { payload: JWTPayload; header: JWTHeaderParameters }

/**
 * Returns a function that performs the checks common to all issuers: a signature by one of the issuer's keys, `iss`,
 * `aud`, `exp`, `nbf`, an `iat` that is not in the future (RFC 9068 §2.2), and no duplicate claims.
 */
export function signedBy({ issuer, audience, keys, sharedSecret = null }: TokenRules) {
  const keyOf = async ({ alg, kid }: { alg?: string; kid?: unknown }): Promise<KeyObject> => {
    if (alg === 'HS256' && sharedSecret) return sharedSecret
    const key = await find(keys, kid)
    if (!key || algorithmOf(key) !== alg)
      throw new Error('The token’s kid matches none of its issuer’s keys for this algorithm')
    return key
  }
  const algorithms = ['RS256', 'ES256', 'EdDSA', ...(sharedSecret ? ['HS256'] : [])]
  const rules = { algorithms, issuer, audience, clockTolerance: clockSkewSeconds }
  return async (token: string, nowMs: number): Promise<Verified> => {
    if (token.length > maxToken) throw new Error('The token is too long')
    const verified = await jwtVerify(token, keyOf, { ...rules, currentDate: new Date(nowMs) })
    const { payload, protectedHeader: header } = verified
    const times = Number.isSafeInteger(payload.exp) && Number.isSafeInteger(payload.iat)
    if (!times || (payload.iat as number) > nowMs / 1_000 + clockSkewSeconds)
      throw new Error('The exp or iat of the token is missing, malformed or in the future')
    const parts = token.split('.', 2).map((part) => Buffer.from(part, 'base64url').toString())
    if (hasDuplicateNames(parts[0] ?? '', header) || hasDuplicateNames(parts[1] ?? '', payload)) {
      throw new Error('The token has a duplicate claim or header parameter')
    }
    return { payload, header }
  }
}

const writtenName = /"(?:[^"\\]|\\.)*"(\s*:)?/g

/**
 * Detects duplicate member names in a JSON object (RFC 8259 §4): the parsed value then has fewer members than the text.
 */
function hasDuplicateNames(json: string, read: unknown): boolean {
  return [...json.matchAll(writtenName)].filter(([, colon]) => colon).length !== nameCount(read)
}

function nameCount(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const inside = Object.values(value).reduce<number>((count, member) => count + nameCount(member), 0)
  return inside + (Array.isArray(value) ? 0 : Object.keys(value).length)
}

async function find(keys: PublicKeys, kid: unknown): Promise<KeyObject | undefined> {
  if (typeof kid !== 'string' || kid.length > maxKid) return undefined
  const known = keys.publicKeys.get(kid)
  if (known || !keys.refresh) return known
  await keys.refresh().catch((cause) => {
    throw new KeysUnavailable('The keys that verify the token are unavailable', { cause })
  })
  return keys.publicKeys.get(kid)
}

function checked(payload: JWTPayload, { alg, typ, kid }: JWTHeaderParameters, audience: string) {
  const { aud, ...claims } = payload
  const texts = [claims.sub, claims.client_id, claims.scope, claims.jti].every((claim) => typeof claim === 'string')
  if (!(texts && aud === audience && types.includes(typ))) throw new Error('The token is not an access token')
  return { ...payload, kid: alg === 'HS256' ? null : kid } as unknown as AccessTokenClaims
}
