import Provider, { errors } from 'oidc-provider'
import { intersectScopes } from '../tokens/scopes.ts'

/**
 * Tokens from a code or a refresh token lose the scopes that the client lost since (the response lists the rest, RFC 6749
 * §5.1). The record preserves the granted scope, as the client may get it back.
 */
export function narrowScopes({ AuthorizationCode, RefreshToken }: Provider): void {
  for (const { prototype } of [AuthorizationCode, RefreshToken]) {
    Object.defineProperty(prototype, 'scopes', {
      get(this: { scope?: string }) {
        const { client } = (Provider.ctx as NonNullable<typeof Provider.ctx>).oidc
        const scope = intersectScopes(this.scope ?? '', client?.scope ?? '')
        if (scope === '') throw new errors.InvalidScope('the client may have none of the granted scopes any more', '')
        return new Set(scope.split(' '))
      },
    })
  }
}
