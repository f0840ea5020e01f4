import type Provider from 'oidc-provider'
import type { AuthorizationServerOptions } from './configuration.ts'
import { type KeySources, rotateKeys, type SigningKeys, signingKeys } from './keys.ts'
import { authorizationServer } from './server.ts'

/** The keys as they are now; `publicKeys` stays the same map. */
export interface KeyRing {
  readonly publicKeys: SigningKeys['publicKeys']
  readonly current: SigningKeys
  /** Rotates the keys when it is time, and takes over what this or another node has changed. */
  refresh: () => Promise<void>
}

/** Reads the keys, makes them on the first run, and follows their rotation on every `refresh`. */
export async function keyRing(sources: KeySources): Promise<KeyRing> {
  await rotateKeys(sources)
  let current = await signingKeys(sources)
  const publicKeys = new Map(current.publicKeys)
  return {
    publicKeys,
    get current() {
      return current
    },
    refresh: async () => {
      await rotateKeys(sources)
      const next = await signingKeys(sources)
      if (namesOf(next) === namesOf(current)) return
      current = next
      for (const kid of publicKeys.keys()) if (!next.publicKeys.has(kid)) publicKeys.delete(kid)
      for (const [kid, key] of next.publicKeys) publicKeys.set(kid, key)
    },
  }
}

const namesOf = ({ jwks }: SigningKeys) => jwks.keys.map(({ kid }) => kid).join(' ')

/** The authorization server of the current keys: they are fixed in each oidc-provider, so another set makes another one. */
export interface CurrentServer {
  readonly current: Provider
}

/** Makes the server, and makes it anew when the ring has turned. */
export function currentServer(ring: KeyRing, options: Omit<AuthorizationServerOptions, 'keys'>): CurrentServer {
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
