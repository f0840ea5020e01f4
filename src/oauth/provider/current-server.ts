import type Provider from 'oidc-provider'
import type { KeyRing } from '../keys/key-ring.ts'
import type { AuthorizationServerOptions } from './configuration.ts'
import { authorizationServer } from './provider.ts'

/**
 * The authorization server with the current keys. oidc-provider fixes its keys at construction, so new keys require a new
 * instance.
 */
export interface CurrentServer {
  readonly current: Provider
}

/** Creates the server, and replaces it whenever the keys change. */
export function currentServer(
  ring: Pick<KeyRing, 'current'>,
  options: Omit<AuthorizationServerOptions, 'keys'>,
): CurrentServer {
  let keys = ring.current
  let provider = authorizationServer({ ...options, keys })
  return {
    get current() {
      if (keys !== ring.current) {
        keys = ring.current
        provider = authorizationServer({ ...options, keys })
      }
      return provider
    },
  }
}
