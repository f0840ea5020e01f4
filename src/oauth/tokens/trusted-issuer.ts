import { type AccessTokenClaims, type ReadAccessToken, signedBy } from './access-tokens.ts'
import type { TrustedIssuerKeys } from './trusted-issuer-keys.ts'

/** Another OpenID Connect issuer whose access tokens are accepted. */
export interface TrustedIssuer {
  issuer: string
  keys: TrustedIssuerKeys
  /** The scopes that its tokens may have in this service; others are ignored. */
  scopes: ReadonlySet<string>
}

const types: unknown[] = ['JWT', 'at+jwt', 'application/at+jwt']

/**
 * Creates the verifier of another issuer's access tokens (RFC 9068): `iss` and `aud` as for the service's own tokens,
 * `scope` as a string, the client in `client_id` or `azp`. Prefixes client and subject with the issuer, so that they never
 * collide with local ones.
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

/** The issuer that a token claims; not to be trusted until its signature is verified. */
export function claimedIssuer(token: string): unknown {
  try {
    return JSON.parse(Buffer.from(token.split('.', 2)[1] ?? '', 'base64url').toString()).iss
  } catch {
    return undefined
  }
}
