import type { Configuration } from 'oidc-provider'

const hour = 3_600
const day = 24 * hour
const refreshSliding = 14 * day
const refreshAbsolute = 90 * day
const loginSeconds = 8 * hour

const secondsNow = () => Math.floor(Date.now() / 1_000)

/**
 * How long things live, in seconds. A refresh token may be used within 14 days, its successors until 90 days after the
 * login; a login lasts 8 hours and no longer. A grant outlives every refresh token that one login can lead to.
 */
export function lifetimes(accessTokenSeconds: number): Configuration['ttl'] {
  return {
    AccessToken: accessTokenSeconds,
    ClientCredentials: accessTokenSeconds,
    IdToken: accessTokenSeconds,
    AuthorizationCode: 60,
    RefreshToken: (_ctx, { iiat }) =>
      Math.max(1, Math.min(refreshSliding, (iiat ?? secondsNow()) + refreshAbsolute - secondsNow())),
    Grant: refreshAbsolute + loginSeconds + hour,
    Session: (_ctx, { loginTs }) => Math.max(1, (loginTs ?? secondsNow()) + loginSeconds - secondsNow()),
    Interaction: hour,
  }
}
