import { theService } from '../../audit/chain.ts'
import type { PublicKeys } from './key-algorithms.ts'
import { type Rotated, rotateOnSchedule } from './rotation.ts'
import { type KeySources, type SigningKeys, signingKeys } from './signing-keys.ts'

/** A running service's signing keys. */
export interface KeyRing extends PublicKeys {
  /** The current keys; replaced by a new object only when the keys change. */
  readonly current: SigningKeys
  refresh: () => Promise<void>
  /** Reloads the keys from the database. */
  reload: () => Promise<void>
}

const refreshMs = 30_000
const maintenanceMs = 15_000

/** Loads the keys, creating them on the first run. */
export async function keyRing(sources: KeySources): Promise<KeyRing> {
  let keys = await signingKeys(sources)
  let refreshedAt = Number.NEGATIVE_INFINITY
  let refreshing: Promise<void> | undefined
  const reload = async () => {
    const found = await signingKeys(sources)
    if (JSON.stringify([found.jwks, found.cookieKeys]) !== JSON.stringify([keys.jwks, keys.cookieKeys])) keys = found
  }
  return {
    get current() {
      return keys
    },
    get publicKeys() {
      return keys.publicKeys
    },
    reload,
    refresh: async () => {
      const now = sources.now()
      if (now - refreshedAt >= refreshMs) {
        refreshedAt = now
        refreshing = reload().finally(() => {
          refreshing = undefined
        })
      }
      // A verification that needs a key waits for any reload in progress.
      await refreshing
    },
  }
}

/**
 * Every 15 seconds, rotates the keys if a rotation is due, and loads changes made by other processes. `time` returns
 * the current time in epoch ms. Returns a function that stops this maintenance.
 */
export function maintainKeys(
  ring: KeyRing,
  sources: Omit<KeySources, 'now'>,
  time: () => Promise<number>,
  { onError, onRotated }: { onError: (error: unknown) => void; onRotated: (rotated: Rotated) => void },
): () => void {
  const maintain = async () => {
    const at = await time()
    const rotated = await rotateOnSchedule({ ...sources, now: () => at, actor: theService })
    if (rotated.published || rotated.retired.length > 0) onRotated(rotated)
    await ring.reload()
  }
  const timer = setInterval(() => maintain().catch(onError), maintenanceMs)
  return () => clearInterval(timer)
}
