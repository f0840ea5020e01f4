import type { ApiKeyIdentity, ReadApiKey } from '../../http/policies/authenticate.ts'
import type { Database } from '../../storage/database.ts'
import { apiKeyHash, isApiKey } from './api-key-text.ts'

export interface ApiKeyReaderOptions {
  db: Database
  /** Milliseconds since the epoch. */
  now: () => number
  /** How many keys are remembered at most. */
  cacheSize?: number
  onError: (error: unknown) => void
}

/** Knows keys by their text, and notes when each was used last. */
export interface ApiKeyReader {
  read: ReadApiKey
  /** Writes down the last uses that were not yet; part of an orderly stop. */
  flush: () => Promise<void>
}

interface Known {
  identity: ApiKeyIdentity | null
  /** Until then, in milliseconds, it is believed without another look. */
  freshUntil: number
}

const recheckMs = 30_000
const useGrainMs = 60_000

/**
 * Makes the reader of `X-API-Key`. A key says whose limits count and proves nothing, so one that is unknown, ended or
 * revoked is as good as none. Answers at once for a key it remembers; the last use is noted to the minute.
 */
export function apiKeyReader({ db, now, cacheSize = 10_000, onError }: ApiKeyReaderOptions): ApiKeyReader {
  const known = new Map<string, Known>()
  const used = new Map<string, number>()
  const live = db.read.selectFrom('apiKeys').where('revokedAt', 'is', null)
  // Prepared statements name columns as the database does; one word is the same in both.
  const find = db.prepare(live.select(['id', 'rate', 'quota', 'expiresAt as ends']).where('keyHash', '=', ''))
  let timer: NodeJS.Timeout | undefined

  const flush = async () => {
    clearTimeout(timer)
    timer = undefined
    const due = [...used]
    used.clear()
    if (due.length > 0) await noteUses(db, due)
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
  const read: ReadApiKey = (text) => {
    if (!isApiKey(text)) return null
    const at = now()
    const entry = known.get(text)
    return entry !== undefined && at < entry.freshUntil ? use(entry.identity, at) : look(text, at)
  }
  return { read, flush }
}

async function noteUses(db: Database, uses: [id: string, at: number][]): Promise<void> {
  await db.write(async (tx) => {
    for (const [id, at] of uses) {
      const lastUsedAt = new Date(at).toISOString()
      await tx.updateTable('apiKeys').set({ lastUsedAt }).where('id', '=', id).execute()
    }
  })
}
