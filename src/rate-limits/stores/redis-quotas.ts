import { inBatches } from './coalesce.ts'
import type { QuotaUse, QuotaUses } from './quotas.ts'
import type { RedisCounters } from './redis.ts'

export interface RedisQuotasOptions {
  redis: RedisCounters
  /** Durable copy of the usage, which also counts while Redis is down. */
  record: QuotaUses
  later: (ms: number, run: () => void) => () => void
  onError: (error: unknown) => void
  /** Maximum number of keys in memory. */
  most?: number
}

/** The last usage of a key in a period that Redis reported to this process. */
interface Heard {
  key: string
  period: string
  used: number
  /** Whether it is saved to the database. */
  isSaved: boolean
}

const saveEveryMs = 1_000
/** Longer than any month, so that a count expires after its period. */
const keptMs = 40 * 86_400_000
const nameOf = (key: string, period: string) => `${key} ${period}`

/**
 * Quotas counted in Redis; every process saves the values it has seen to the database each second. When Redis does not know
 * a key (any more), counting continues from the saved value. While Redis is down the database counts; once it is back, with
 * or without its data, the next take of each key brings it up to the database's count.
 */
export function redisQuotas(options: RedisQuotasOptions) {
  const { redis, record } = options
  const known = heardUses(options)
  const behind = countedElsewhere(options)
  const takeMany = inBatches(async (id, calls) => {
    const [key, period, limit] = JSON.parse(id) as [string, string, number]
    const asked = { limit, calls, endsAtMs: Date.parse(`${period}-01T00:00:00Z`) + keptMs }
    const name = nameOf(key, period)
    const take = async () => redis.takeQuota(name, asked, await known.least(key, period))
    const taken = behind.has(name)
      ? await behind.catchUp(name, take)
      : ((await redis.takeQuota(name, asked)) ?? (await take()))
    if (taken === null) throw new Error('Redis forgets a quota at once')
    known.hear(key, period, taken.used)
    return taken
  })
  const takeFromRecord: QuotaUses['take'] = async (key, period, limit) => {
    await known.saveOne(key, period)
    // In any case: a call whose response is lost may have been counted.
    return record.take(key, period, limit).finally(() => behind.add(nameOf(key, period)))
  }
  const quotas: Pick<QuotaUses, 'take' | 'back' | 'look'> = {
    take: async (key, period, limit) => {
      const batched = await takeMany(JSON.stringify([key, period, limit])).catch(() => null)
      if (batched === null) return takeFromRecord(key, period, limit)
      const { result, place } = batched
      const isGranted = place < result.granted
      return { used: isGranted ? result.used - result.granted + place + 1 : result.used, isGranted }
    },
    back: async (key, period) => {
      await redis.backQuota(nameOf(key, period)).catch(() => record.back(key, period))
    },
    look: async (key, period) => {
      const name = nameOf(key, period)
      const there = await redis.lookQuota(name).catch(() => null)
      if (there === null) return known.least(key, period)
      return behind.has(name) ? Math.max(there, await known.least(key, period)) : there
    },
  }
  return { quotas, close: known.close }
}

/** Keys the database has counted while Redis was down, until Redis is brought up to date. */
function countedElsewhere({ most = 50_000 }: RedisQuotasOptions) {
  const names = new Set<string>()
  const add = (name: string) => {
    if (names.size >= most) for (const oldest of names.keys().take(1)) names.delete(oldest)
    names.add(name)
  }
  return {
    add,
    has: (name: string) => names.has(name),
    /** Removes the key before the update, so that calls counted meanwhile add it again. */
    catchUp: async <T>(name: string, tell: () => Promise<T>): Promise<T> => {
      names.delete(name)
      try {
        return await tell()
      } catch (error) {
        add(name)
        throw error
      }
    },
  }
}

/** The last usage seen of each key, saved within a second. */
function heardUses({ record, later, onError, most = 50_000 }: RedisQuotasOptions) {
  const heard = new Map<string, Heard>()
  let cancel: (() => void) | null = null
  let isClosed = false
  let saving = Promise.resolve()
  const raise = async (due: readonly Heard[]) => {
    if (due.length === 0) return
    await record.raise(due.map(({ key, period, used }): QuotaUse => [key, period, used]))
    for (const one of due) one.isSaved = true
  }
  const save = () => {
    saving = saving.catch(() => {}).then(() => raise([...heard.values()].filter(({ isSaved }) => !isSaved)))
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
    const one = heard.get(name)
    if (one && !one.isSaved) await raise([one])
  })
  return {
    /** Saves one key to the database immediately. */
    saveOne: async (key: string, period: string) => void (await raiseOne(nameOf(key, period))),
    hear: (key: string, period: string, used: number) => {
      const name = nameOf(key, period)
      if (heard.size >= most && !heard.has(name)) makeRoom(heard)
      heard.set(name, { key, period, used, isSaved: false })
      arm()
    },
    /** The minimum a key has used, from memory and the database. */
    least: async (key: string, period: string): Promise<number> =>
      Math.max(heard.get(nameOf(key, period))?.used ?? 0, await record.look(key, period)),
    close: async () => {
      isClosed = true
      cancel?.()
      await save().catch(onError)
    },
  }
}

/** Evicts the oldest saved entry among the first 100; if none is saved, the oldest. */
function makeRoom(heard: Map<string, Heard>): void {
  const oldest = [...heard.entries().take(100)]
  const [id] = oldest.find(([, { isSaved }]) => isSaved) ?? (oldest[0] as [string, Heard])
  heard.delete(id)
}
