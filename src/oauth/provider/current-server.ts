import type Provider from 'oidc-provider'
import type { KeyRing } from '../keys/key-ring.ts'
import type { AuthorizationServerOptions } from './configuration.ts'

/**
 * The authorization server with the current keys. oidc-provider fixes its keys at construction, so new keys require a new
 * instance. The first access to `current` creates the server.
 */
export interface CurrentServer {
  readonly current: Provider | Promise<Provider>
}

type Options = Omit<AuthorizationServerOptions, 'keys'>

/**
 * Creates the server when it is first used, and replaces it whenever the keys change. oidc-provider is loaded only then,
 * because that takes 0.2 s.
 */
export function currentServer(ring: Pick<KeyRing, 'current'>, options: Options): CurrentServer {
  let made: { keys: KeyRing['current']; provider: Promise<Provider> } | undefined
  return {
    get current() {
      const keys = ring.current
      if (made?.keys !== keys) {
        const provider = create({ ...options, keys })
        made = { keys, provider }
        // After a failure, the next access creates the server again.
        provider.catch(() => {
          if (made?.provider === provider) made = undefined
        })
      }
      return made.provider
    },
  }
}

const create = async (options: AuthorizationServerOptions): Promise<Provider> =>
  (await import('./provider.ts')).authorizationServer(options)
