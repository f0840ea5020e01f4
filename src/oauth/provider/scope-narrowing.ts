import Provider, { errors } from 'oidc-provider'
import { intersectScopes } from '../tokens/scopes.ts'

/**
 * What follows from a code or a refresh token has no scope that the client lost since (RFC 6749 §5.1 tells the rest);
 * the scope that was granted stays in the record, as the client may get it back.
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
