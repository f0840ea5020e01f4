import { cidrs, issuer } from './address.ts'
import { named, optional, scopeList } from './setting.ts'

const loopback = '127.0.0.0/8,::1/128'

/** Settings of the trusted issuer. */
export const trustedIssuerSettings = (production: boolean) => ({
  trustedIssuer: named(
    'PLINTH_TRUSTED_ISSUER',
    optional(issuer(!production, 'OpenID Connect issuer whose access tokens are accepted too')),
  ),
  trustedIssuerCidrs: named(
    'PLINTH_TRUSTED_ISSUER_CIDRS',
    cidrs(production ? '' : loopback, 'Private ranges the trusted issuer may be in'),
  ),
  trustedScopes: named(
    'PLINTH_TRUSTED_SCOPES',
    optional(scopeList('Scopes its tokens can have; all but admin and audit:read without it')),
  ),
})
