import { inBatches } from './coalesce.ts'
import type { QuotaUse, QuotaUses } from './quotas.ts'
import type { RedisCounters } from './redis.ts'

export interface RedisQuotasOptions {
  redis: RedisCounters
  /** Durable copy of the usage. It also counts calls while Redis is down. */
  record: QuotaUses
  later: (ms: number, run: () => void) => () => void
  onError: (error: unknown) => void
  /** Maximum number of keys in memory. */
  maxKeys?: number
}

/** The latest usage that Redis has reported to this process for a key and a period. */
interface SeenUsage {
  key: string
  period: string
  used: number
  /** Whether the usage is saved to the database. */
  isSaved: boolean
}

const saveEveryMs = 1_000
/** Longer than any month, so that no count expires before its period ends. */
const retentionMs = 40 * 86_400_000
const nameOf = (key: string, period: string) => `${key} ${period}`

/**
 * Counts quota usage in Redis. Every second, each process saves the latest values it has seen to the database. If Redis
 * has no value for a key, counting continues from the saved value.
 *
 * While Redis is down, calls are counted in the database. Once Redis is available again, with or without its data, the
 * next `take` call for each key raises the count in Redis to the count in the database.
 */
export function redisQuotas(options: RedisQuotasOptions) {
  const { redis, record } = options
  const cache = usageCache(options)
  const staleKeys = countedElsewhere(options)
  const takeMany = inBatches(async (id, calls) => {
    const [key, period, limit] = JSON.parse(id) as [string, string, number]
    const request = { limit, calls, endsAtMs: Date.parse(`${period}-01T00:00:00Z`) + retentionMs }
    const name = nameOf(key, period)
    const take = async () => redis.takeQuota(name, request, await cache.minUsed(key, period))
    const taken = staleKeys.has(name)
      ? await staleKeys.catchUp(name, take)
      : ((await redis.takeQuota(name, request)) ?? (await take()))
    if (taken === null) throw new Error('Redis did not store the quota')
    cache.add(key, period, taken.used)
    return taken
  })
  const takeFromRecord: QuotaUses['take'] = async (key, period, limit) => {
    await cache.saveOne(key, period)
    // Mark the key as stale even after an error: the database may have counted the call and only its response was lost.
    return record.take(key, period, limit).finally(() => staleKeys.add(nameOf(key, period)))
  }
  const quotas: Pick<QuotaUses, 'take' | 'back' | 'look'> = {
    take: async (key, period, limit) => {
      const batched = await takeMany(JSON.stringify([key, period, limit])).catch(() => null)
      if (batched === null) return takeFromRecord(key, period, limit)
      const { result, index } = batched
      const isGranted = index < result.granted
      return { used: isGranted ? result.used - result.granted + index + 1 : result.used, isGranted }
    },
    back: async (key, period) => {
      await redis.backQuota(nameOf(key, period)).catch(() => record.back(key, period))
    },
    look: async (key, period) => {
      const name = nameOf(key, period)
      const there = await redis.lookQuota(name).catch(() => null)
      if (there === null) return cache.minUsed(key, period)
      return staleKeys.has(name) ? Math.max(there, await cache.minUsed(key, period)) : there
    },
  }
  return { quotas, close: cache.close }
}

/** Tracks the keys whose calls the database counted while Redis was down, until Redis has caught up. */
function countedElsewhere({ maxKeys = 50_000 }: RedisQuotasOptions) {
  const names = new Set<string>()
  const add = (name: string) => {
    if (names.size >= maxKeys) for (const oldest of names.keys().take(1)) names.delete(oldest)
    names.add(name)
  }
  return {
    add,
    has: (name: string) => names.has(name),
    /** Removes the key before the update: if the database counts calls during the update, they add the key again. */
    catchUp: async <T>(name: string, update: () => Promise<T>): Promise<T> => {
      names.delete(name)
      try {
        return await update()
      } catch (error) {
        add(name)
        throw error
      }
    },
  }
}

/** Caches the latest usage of each key, and saves it within a second. */
function usageCache({ record, later, onError, maxKeys = 50_000 }: RedisQuotasOptions) {
  const seen = new Map<string, SeenUsage>()
  let cancel: (() => void) | null = null
  let isClosed = false
  let saving = Promise.resolve()
  const raise = async (due: readonly SeenUsage[]) => {
    if (due.length === 0) return
    await record.raise(due.map(({ key, period, used }): QuotaUse => [key, period, used]))
    for (const one of due) one.isSaved = true
  }
  const save = () => {
    saving = saving.catch(() => {}).then(() => raise([...seen.values()].filter(({ isSaved }) => !isSaved)))
    return saving
  }
  const arm = () => {
    if (isClosed) return
    cancel ??= later(saveEveryMs, () => {
      cancel = null
      save().catch((error) => {
        arm()
        onError(error)
      })
    })
  }
  const raiseOne = inBatches(async (name) => {
    const one = seen.get(name)
    if (one && !one.isSaved) await raise([one])
  })
  return {
    /** Saves the usage of one key to the database immediately. */
    saveOne: async (key: string, period: string) => void (await raiseOne(nameOf(key, period))),
    add: (key: string, period: string, used: number) => {
      const name = nameOf(key, period)
      if (seen.size >= maxKeys && !seen.has(name)) makeRoom(seen)
      seen.set(name, { key, period, used, isSaved: false })
      arm()
    },
    /** Returns a lower bound for the usage of a key, from memory and the database. */
    minUsed: async (key: string, period: string): Promise<number> =>
      Math.max(seen.get(nameOf(key, period))?.used ?? 0, await record.look(key, period)),
    close: async () => {
      isClosed = true
      cancel?.()
      await save().catch(onError)
    },
  }
}

/** Evicts the oldest saved entry among the first 100 or, if none of those is saved, the oldest entry. */
function makeRoom(seen: Map<string, SeenUsage>): void {
  const oldest = [...seen.entries().take(100)]
  const [id] = oldest.find(([, { isSaved }]) => isSaved) ?? (oldest[0] as [string, SeenUsage])
  seen.delete(id)
}
