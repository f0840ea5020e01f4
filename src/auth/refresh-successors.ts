import Provider from 'oidc-provider'
import type { Sealer } from '../db/seal.ts'

/** What the types of oidc-provider leave out. */
interface MakesId {
  generateTokenId: () => string
}

/**
 * Makes each refresh token follow from the one it replaces, by a keyed digest: whoever repeats a refresh within the grace
 * gets the very same successor, on every node, though no token is kept in a form that could be sent again.
 */
export function deriveSuccessors(provider: Provider, sealer: Sealer): void {
  const model = provider.RefreshToken.prototype as typeof provider.RefreshToken.prototype & MakesId
  const generate = model.generateTokenId
  model.generateTokenId = function () {
    const replaced = Provider.ctx?.oidc.entities.RotatedRefreshToken
    return replaced ? sealer.digest(replaced.jti, 'refresh_token') : generate.call(this)
  }
}
