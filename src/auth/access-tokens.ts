import type { KeyObject } from 'node:crypto'
import { type JWTHeaderParameters, type JWTPayload, jwtVerify } from 'jose'

/** How far clocks may differ, in seconds. */
export const clockSkewSeconds = 30

const longestToken = 8_192
const types: unknown[] = ['JWT', 'at+jwt']

export interface AccessTokenClaims {
  sub: string
  client_id: string
  scope: string
  jti: string
  /** Seconds since the epoch. */
  exp: number
}

export interface TokenRules {
  issuer: string
  audience: string
  keys: { publicKeys: ReadonlyMap<string, KeyObject> }
}

/** Reads an access token at a time in milliseconds. */
export type ReadAccessToken = (token: string, nowMs: number) => Promise<AccessTokenClaims>

/**
 * Makes the reader of our own JWT access tokens (RFC 9068 §4, RFC 8725): RS256 under our keys, `iss`, `aud`, times.
 * It throws jose's JWTExpired for a token that was good once, and some other error for anything else.
 */
export function accessTokenReader({ issuer, audience, keys }: TokenRules): ReadAccessToken {
  const keyOf = ({ kid }: { kid?: string }) => {
    const key = keys.publicKeys.get(kid as string)
    if (!key) throw new Error('The token names no key of ours')
    return key
  }
  const rules = { algorithms: ['RS256'], issuer, audience, clockTolerance: clockSkewSeconds }
  return async (token, nowMs) => {
    if (token.length > longestToken) throw new Error('The token is too long')
    const { payload, protectedHeader } = await jwtVerify(token, keyOf, { ...rules, currentDate: new Date(nowMs) })
    return checked(payload, protectedHeader, audience, nowMs / 1_000 + clockSkewSeconds)
  }
}

function checked(payload: JWTPayload, { typ }: JWTHeaderParameters, audience: string, latestIat: number) {
  const { aud, iat, exp, ...claims } = payload
  const texts = [claims.sub, claims.client_id, claims.scope, claims.jti].every((claim) => typeof claim === 'string')
  const times = Number.isSafeInteger(exp) && Number.isSafeInteger(iat) && (iat as number) <= latestIat
  if (!(texts && times && aud === audience && types.includes(typ))) throw new Error('The token is no access token')
  return payload as unknown as AccessTokenClaims
}
