import Provider, { errors } from 'oidc-provider'
import { intersectScopes } from '../tokens/scopes.ts'

/**
 * Tokens issued for a code or a refresh token omit the scopes that the client has lost since; the response lists the rest
 * (RFC 6749 §5.1). The record keeps the granted scopes, because the client may get them back.
 */
export function narrowScopes({ AuthorizationCode, RefreshToken }: Provider): void {
  for (const { prototype } of [AuthorizationCode, RefreshToken]) {
    Object.defineProperty(prototype, 'scopes', {
      get(this: { scope?: string }) {
        const { client } = (Provider.ctx as NonNullable<typeof Provider.ctx>).oidc
        const scope = intersectScopes(this.scope ?? '', client?.scope ?? '')
        if (scope === '') throw new errors.InvalidScope('the client has lost all of the granted scopes', '')
        return new Set(scope.split(' '))
      },
    })
  }
}
