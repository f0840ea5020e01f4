/** The OAuth 2.0 authorization code flow with PKCE (RFC 6749 §4.1, RFC 7636), for a public client in a browser. */

import { requestPatiently } from './network.ts'

export const clientId = 'console'
const redirectUri = `${location.origin}/console/signed-in`
/** The session storage key for a pending login. It is removed when the authorization server redirects back. */
const pendingKey = 'plinth-login'

interface Pending {
  state: string
  verifier: string
  /** The path, query and fragment to show after the login. */
  returnTo: string
}

/** The tokens of a login, which are stored only in memory. */
export interface Tokens {
  accessToken: string
  refreshToken: string | null
  idToken: string | null
  scopes: ReadonlySet<string>
  /** When the access token expires, in ms since the epoch. */
  expiresAt: number
}

const base64url = (bytes: Uint8Array) =>
  btoa(String.fromCharCode(...bytes))
    .replace(/\+/g, '-')
    .replace(/\//g, '_')
    .replace(/=+$/, '')
const randomText = () => base64url(crypto.getRandomValues(new Uint8Array(32)))
const challengeOf = async (verifier: string) =>
  base64url(new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier))))

/**
 * Returns all scopes of the service except `offline_access`. The role of the user decides which of them are granted.
 */
async function supportedScopes(): Promise<string[]> {
  const response = await requestPatiently('/.well-known/openid-configuration')
  if (!response.ok) throw new LoginError(`The service does not offer to sign in here (status ${response.status}).`)
  const { scopes_supported: scopes } = (await response.json()) as { scopes_supported: string[] }
  return scopes.filter((scope) => scope !== 'offline_access')
}

/** Thrown when a login fails. Its message is shown to the user. */
export class LoginError extends Error {}

/**
 * Redirects to the authorization server, which asks for a password only if there is no session. Rejects with a
 * `LoginError` or `NetworkError` if the service does not respond as expected.
 */
export async function beginLogin(returnTo: string): Promise<void> {
  const pending: Pending = { state: randomText(), verifier: randomText(), returnTo }
  const scope = (await supportedScopes()).join(' ')
  const query = new URLSearchParams({
    ...{ client_id: clientId, redirect_uri: redirectUri, response_type: 'code', scope, state: pending.state },
    ...{ code_challenge: await challengeOf(pending.verifier), code_challenge_method: 'S256' },
  })
  // Stored immediately before the navigation: if two logins begin at once, the browser follows the stored one.
  sessionStorage.setItem(pendingKey, JSON.stringify(pending))
  // Replaces this page in the history, because going back to it would begin another login.
  location.replace(`/oauth/authorize?${query}`)
}

/** Exchanges the code in the redirect's query for tokens. Throws a `LoginError` if the login failed. */
export async function completeLogin(query: URLSearchParams): Promise<{ tokens: Tokens; returnTo: string }> {
  const pending = JSON.parse(sessionStorage.getItem(pendingKey) ?? 'null') as Pending | null
  sessionStorage.removeItem(pendingKey)
  if (pending === null || query.get('state') !== pending.state) throw new LoginError('This sign-in is no longer valid.')
  const code = query.get('code')
  if (code === null) throw new LoginError(query.get('error_description') ?? 'The sign-in was canceled.')
  const grant = { grant_type: 'authorization_code', code, redirect_uri: redirectUri, code_verifier: pending.verifier }
  return { tokens: await requestTokens(grant), returnTo: pending.returnTo }
}

/** Exchanges the refresh token for new tokens (RFC 6749 §6). Throws a `LoginError` if the session has ended. */
export const refresh = (refreshToken: string) =>
  requestTokens({ grant_type: 'refresh_token', refresh_token: refreshToken })

interface TokenResponse {
  access_token: string
  refresh_token?: string
  id_token?: string
  scope?: string
  expires_in: number
  error_description?: string
}

async function requestTokens(grant: Record<string, string>): Promise<Tokens> {
  const body = new URLSearchParams({ ...grant, client_id: clientId })
  const response = await requestPatiently('/oauth/token', { method: 'POST', body })
  if (response.status >= 500 || response.status === 429)
    throw new Error(`The authorization server responded with status ${response.status}.`)
  const answer = (await response.json()) as TokenResponse
  if (!response.ok) throw new LoginError(answer.error_description ?? 'The session has ended.')
  return {
    accessToken: answer.access_token,
    refreshToken: answer.refresh_token ?? null,
    idToken: answer.id_token ?? null,
    scopes: new Set(answer.scope?.split(' ')),
    expiresAt: Date.now() + answer.expires_in * 1_000,
  }
}

/**
 * Ends the session at the authorization server (OpenID Connect RP-Initiated Logout) by navigating to its logout page.
 */
export function endSession(idToken: string | null): void {
  const query = new URLSearchParams({ client_id: clientId, post_logout_redirect_uri: `${location.origin}/console/` })
  if (idToken !== null) query.set('id_token_hint', idToken)
  location.assign(`/oauth/logout?${query}`)
}
