import { type AccessTokenClaims, type ReadAccessToken, signedBy } from './access-tokens.ts'
import type { TrustedIssuerKeys } from './trusted-issuer-keys.ts'

/** An external OpenID Connect issuer; this service accepts its access tokens. */
export interface TrustedIssuer {
  issuer: string
  keys: TrustedIssuerKeys
  /** The scopes that the issuer's tokens may have in this service; other scopes are ignored. */
  scopes: ReadonlySet<string>
}

const types: unknown[] = ['JWT', 'at+jwt', 'application/at+jwt']

/**
 * Creates the verifier for another issuer's access tokens (RFC 9068). `iss` and `aud` are checked as for the service's
 * own tokens; `scope` must be a string; the client is the first of `client_id`, `azp` and `sub` that is present. The
 * issuer is prepended to the client and the subject, so that neither collides with local ids.
 */
export function trustedIssuerTokenReader({ issuer, keys, scopes }: TrustedIssuer, audience: string): ReadAccessToken {
  const read = signedBy({ issuer, audience, keys })
  return async (token, nowMs) => {
    keys.keepFresh()
    const { payload, header } = await read(token, nowMs)
    const { sub, exp, jti, client_id: clientId = payload.azp ?? sub, scope } = payload
    const texts = [sub, clientId, scope].every((claim) => typeof claim === 'string' && claim !== '')
    if (!texts || !types.includes(header.typ)) throw new Error('The token is not an access token')
    const allowed = String(scope)
      .split(' ')
      .filter((name) => scopes.has(name))
    return {
      sub: `${issuer}#${sub}`,
      client_id: `${issuer}#${clientId}`,
      scope: allowed.join(' '),
      jti: jti ?? null,
      exp,
      kid: header.kid,
    } as AccessTokenClaims
  }
}

/** Returns the issuer that a token claims, which must not be trusted until the signature is verified. */
export function claimedIssuer(token: string): unknown {
  try {
    return JSON.parse(Buffer.from(token.split('.', 2)[1] ?? '', 'base64url').toString()).iss
  } catch {
    return undefined
  }
}
