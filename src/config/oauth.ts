import { clientIdPattern, clientIdRule } from '../oauth/clients/validate.ts'
import { signingAlgorithms } from '../oauth/keys/key-algorithms.ts'
import { cidrs, issuer } from './address.ts'
import { choice, integer, named, optional, type Profile, scopeList, text } from './setting.ts'

const loopback = '127.0.0.0/8,::1/128'

/**
 * Defines the settings for issued tokens, for tokens from a trusted issuer or signed with a shared secret, and for the
 * bootstrap client.
 */
export const oauthSettings = ({ production }: Profile) => ({
  accessTokenSeconds: named(
    'PLINTH_ACCESS_TOKEN_TTL',
    integer(60, 86_400, 900, 'Lifetime of an access token, seconds'),
  ),
  signingAlgorithm: named(
    'PLINTH_SIGNING_ALGORITHM',
    choice(signingAlgorithms, 'RS256', 'Algorithm of new keys, which sign access and ID tokens'),
  ),
  bootstrapClientId: named(
    'PLINTH_BOOTSTRAP_CLIENT_ID',
    optional(text('', 'Client with every scope, created at start', clientIdPattern, clientIdRule)),
  ),
  bootstrapClientSecret: named(
    'PLINTH_BOOTSTRAP_CLIENT_SECRET',
    optional(text('', 'Its secret', /^[\x20-\x7e]{1,256}$/, '1 to 256 printable ASCII characters')),
  ),
  trustedIssuer: named(
    'PLINTH_TRUSTED_ISSUER',
    optional(issuer(!production, 'OpenID Connect issuer whose access tokens are accepted too')),
  ),
  trustedIssuerCidrs: named(
    'PLINTH_TRUSTED_ISSUER_CIDRS',
    cidrs(production ? '' : loopback, 'Private networks that the trusted issuer may be in'),
  ),
  trustedScopes: named(
    'PLINTH_TRUSTED_SCOPES',
    optional(scopeList('Scopes its tokens can have; all but admin and audit:read by default')),
  ),
  jwtSharedSecret: named(
    'PLINTH_JWT_SHARED_SECRET',
    optional(
      text(
        '',
        'Secret of HS256 access tokens issued elsewhere; without it, none is accepted',
        /^.{32,1024}$/,
        '32 to 1024 bytes',
      ),
    ),
  ),
})
