import { createContext, useContext, useSyncExternalStore } from 'react'
import { beginLogin, completeLogin, endSession, LoginError, refresh, type Tokens } from './oauth.ts'

/** The logged-in user. */
export interface Person {
  id: string
  email: string
  name: string
}

/**
 * The session of a logged-in user. Its tokens are stored only in memory. After a reload, the authorization server
 * issues new tokens, and asks for a password only if its own session has ended.
 */
export interface Session {
  person: Person
  /** Returns true if the user has all of these scopes. */
  may: (...scopes: string[]) => boolean
  /**
   * Returns a valid access token; refreshes it if it is about to expire or if `rejected` is the current one. Rejects with a
   * `LoginError` after the session has ended.
   */
  accessToken: (rejected?: string) => Promise<string>
  /** Returns whether the session has ended and the user must log in again. */
  isExpired: () => boolean
  subscribe: (listener: () => void) => () => void
  /**
   * Redirects to the login page, which returns the user to the current page. Rejects if the service does not respond as
   * expected.
   */
  logIn: () => Promise<void>
  logOut: () => void
}

/** How long before its expiry a token is refreshed, so that it does not expire while a request is in transit. */
const refreshAheadMs = 30_000

/** Opens the session of this page; resolves to null if the browser is being redirected to the login page. */
export async function openSession(): Promise<Session | null> {
  const { pathname, search, hash } = location
  if (pathname !== '/console/signed-in') {
    await beginLogin(pathname + search + hash)
    return null
  }
  const { tokens, returnTo } = await completeLogin(new URLSearchParams(search))
  history.replaceState(null, '', returnTo)
  return createSession(tokens)
}

function createSession(first: Tokens): Session {
  let tokens = first
  let expired = false
  let refreshing: Promise<string> | null = null
  const listeners = new Set<() => void>()
  const expire = () => {
    expired = true
    for (const listener of listeners) listener()
  }
  const renew = async (): Promise<string> => {
    try {
      if (tokens.refreshToken === null) throw new LoginError('The session has ended.')
      tokens = { ...(await refresh(tokens.refreshToken)), idToken: tokens.idToken }
      return tokens.accessToken
    } catch (error) {
      if (error instanceof LoginError) expire()
      throw error
    } finally {
      refreshing = null
    }
  }
  return {
    person: personOf(first.idToken),
    may: (...scopes) => scopes.every((scope) => first.scopes.has(scope)),
    accessToken: async (rejected) => {
      if (expired) throw new LoginError('The session has ended.')
      if (tokens.accessToken !== rejected && tokens.expiresAt > Date.now() + refreshAheadMs) return tokens.accessToken
      refreshing ??= renew()
      return refreshing
    },
    isExpired: () => expired,
    subscribe: (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    logIn: () => beginLogin(location.pathname + location.search + location.hash),
    logOut: () => endSession(tokens.idToken),
  }
}

/**
 * Reads the user from the ID token, which is not verified because it comes from the token endpoint over TLS (OpenID
 * Connect Core §3.1.3.7).
 */
function personOf(idToken: string | null): Person {
  const payload = idToken?.split('.')[1] ?? 'e30'
  const bytes = Uint8Array.from(atob(payload.replace(/-/g, '+').replace(/_/g, '/')), (char) => char.charCodeAt(0))
  const { sub = '', email = '', name = '' } = JSON.parse(new TextDecoder().decode(bytes)) as Record<string, string>
  return { id: sub, email, name: name || email || sub }
}

export const SessionContext = createContext<Session | null>(null)

export function useSession(): Session {
  const session = useContext(SessionContext)
  if (session === null) throw new Error('There is no session above this component')
  return session
}

export function useIsExpired(): boolean {
  const { subscribe, isExpired } = useSession()
  return useSyncExternalStore(subscribe, isExpired)
}
