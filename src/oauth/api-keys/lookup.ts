import type { ApiKeyIdentity, ReadApiKey } from '../../http/policies/authenticate.ts'
import type { Database } from '../../storage/database.ts'
import { apiKeyHash, isApiKey } from './api-key-text.ts'

export interface ApiKeyReaderOptions {
  db: Database
  /** Returns the current time in ms since the epoch. */
  now: () => number
  /** Maximum number of keys in the cache. */
  cacheSize?: number
  onError: (error: unknown) => void
}

/** Looks up API keys and records when each was last used. */
export interface ApiKeyReader {
  read: ReadApiKey
  /** Flushes pending last-use timestamps; call on shutdown. */
  flush: () => Promise<void>
}

interface Known {
  identity: ApiKeyIdentity | null
  /** When the cache entry expires, in epoch ms. */
  freshUntil: number
}

const recheckMs = 30_000
const useGrainMs = 60_000

/**
 * Creates the lookup for `X-API-Key`. A key does not authenticate; it only determines whose limits apply, so unknown,
 * expired and revoked keys are ignored. Lookups of cached keys are synchronous. The time of last use is accurate to the
 * minute.
 */
export function apiKeyReader({ db, now, cacheSize = 10_000, onError }: ApiKeyReaderOptions): ApiKeyReader {
  const known = new Map<string, Known>()
  const used = new Map<string, number>()
  const live = db.read.selectFrom('apiKeys').where('revokedAt', 'is', null)
  // Prepared statements return snake_case column names, so use a one-word alias, which is the same in camelCase.
  const find = db.prepare(live.select(['id', 'rate', 'quota', 'expiresAt as ends']).where('keyHash', '=', ''))
  let timer: NodeJS.Timeout | undefined

  const flush = async () => {
    clearTimeout(timer)
    timer = undefined
    const due = [...used]
    used.clear()
    if (due.length > 0) await recordUses(db, due)
  }
  const use = (identity: ApiKeyIdentity | null, at: number) => {
    if (identity === null) return null
    used.set(identity.id, at)
    timer ??= setTimeout(() => flush().catch(onError), useGrainMs).unref()
    return identity
  }
  const look = async (text: string, at: number) => {
    const [row] = await find.all([apiKeyHash(text)])
    const end = row?.ends ? Date.parse(row.ends) : Number.POSITIVE_INFINITY
    const identity = row !== undefined && at < end ? { id: row.id, rate: row.rate, quota: row.quota } : null
    if (known.size >= cacheSize && !known.has(text)) known.delete(known.keys().next().value as string)
    known.set(text, { identity, freshUntil: Math.min(at + recheckMs, identity ? end : Number.POSITIVE_INFINITY) })
    return use(identity, at)
  }
  const knownAt = (text: string, at: number): ApiKeyIdentity | null | undefined => {
    if (!isApiKey(text)) return null
    const entry = known.get(text)
    return entry !== undefined && at < entry.freshUntil ? use(entry.identity, at) : undefined
  }
  const read = (text: string) => {
    const at = now()
    const identity = knownAt(text, at)
    return identity === undefined ? look(text, at) : identity
  }
  return { read: Object.assign(read, { known: (text: string) => knownAt(text, now()) }), flush }
}

async function recordUses(db: Database, uses: [id: string, at: number][]): Promise<void> {
  await db.write(async (tx) => {
    for (const [id, at] of uses) {
      const lastUsedAt = new Date(at).toISOString()
      await tx.updateTable('apiKeys').set({ lastUsedAt }).where('id', '=', id).execute()
    }
  })
}
