import { inBatches } from './batches.ts'
import type { QuotaUse, QuotaUses } from './quota-uses.ts'
import type { RedisCounters } from './redis.ts'

export interface RedisQuotasOptions {
  redis: RedisCounters
  /** Where uses outlive Redis, and where they are counted while it is away. */
  record: QuotaUses
  later: (ms: number, run: () => void) => () => void
  onError: (error: unknown) => void
  /** How many keys are remembered. */
  most?: number
}

/** What this process has heard of a key's use of a period. */
interface Heard {
  key: string
  period: string
  used: number
  /** Whether the database knows of it. */
  isSaved: boolean
}

const saveEveryMs = 1_000
/** Longer than any month, so that a period's count ends after it. */
const keptMs = 40 * 86_400_000

/**
 * Quotas counted in Redis and written to the database every second. What was heard last is the floor of the next count: a
 * Redis that was flushed, or that has evicted the key, goes on where it was. While it is away the database counts.
 */
export function redisQuotas(options: RedisQuotasOptions) {
  const { redis, record } = options
  const known = heardUses(options)
  const takeMany = inBatches(async (id, calls) => {
    const [key, period, limit] = JSON.parse(id) as [string, string, number]
    const floor = await known.of(key, period)
    const endsAtMs = Date.parse(`${period}-01T00:00:00Z`) + keptMs
    const [used, granted] = await redis.takeQuota(`${key} ${period}`, floor, limit, calls, endsAtMs)
    known.hear(key, period, used)
    return { used, granted }
  })
  const takeHere: QuotaUses['take'] = async (key, period, limit) => {
    await known.save(key, period)
    const taken = await record.take(key, period, limit)
    known.hear(key, period, taken.used)
    return taken
  }
  const quotas: Pick<QuotaUses, 'take' | 'back' | 'look'> = {
    take: async (key, period, limit) => {
      const batched = await takeMany(JSON.stringify([key, period, limit])).catch(() => null)
      if (batched === null) return takeHere(key, period, limit)
      const { result, place } = batched
      const isGranted = place < result.granted
      return { used: isGranted ? result.used - result.granted + place + 1 : result.used, isGranted }
    },
    back: async (key, period) => {
      const used = await redis.backQuota(`${key} ${period}`).catch(() => null)
      if (used === null) await record.back(key, period)
      else known.hear(key, period, used)
    },
    look: async (key, period) => {
      const floor = await known.of(key, period)
      return Math.max(floor, await redis.lookQuota(`${key} ${period}`).catch(() => 0))
    },
  }
  return { quotas, close: known.close }
}

/** What was heard of each key, saved a second later at the latest. */
function heardUses({ record, later, onError, most = 50_000 }: RedisQuotasOptions) {
  const heard = new Map<string, Heard>()
  let cancel: (() => void) | null = null
  const hear = (key: string, period: string, used: number, isSaved = false) => {
    const id = `${key} ${period}`
    if (heard.size >= most && !heard.has(id)) makeRoom(heard)
    heard.set(id, { key, period, used, isSaved })
    if (!isSaved) arm()
  }
  const saveAll = async (due: Heard[]) => {
    for (const one of due) one.isSaved = true
    if (due.length === 0) return
    try {
      await record.raise(due.map(({ key, period, used }): QuotaUse => [key, period, used]))
    } catch (error) {
      for (const one of due) one.isSaved = false
      arm()
      throw error
    }
  }
  const unsaved = () => [...heard.values()].filter(({ isSaved }) => !isSaved)
  const arm = () => {
    cancel ??= later(saveEveryMs, () => {
      cancel = null
      saveAll(unsaved()).catch(onError)
    })
  }
  return {
    hear,
    /** The least that a key has used. */
    of: async (key: string, period: string): Promise<number> => {
      const before = heard.get(`${key} ${period}`)
      if (before !== undefined) return before.used
      const used = await record.look(key, period)
      hear(key, period, used, true)
      return used
    },
    save: (key: string, period: string) => saveAll(unsaved().filter((one) => one.key === key && one.period === period)),
    close: async () => {
      cancel?.()
      await saveAll(unsaved()).catch(onError)
    },
  }
}

/** The oldest that the database knows of; when there is none among the oldest, the very oldest. */
function makeRoom(heard: Map<string, Heard>): void {
  const oldest = [...heard.entries().take(100)]
  const [id] = oldest.find(([, { isSaved }]) => isSaved) ?? (oldest[0] as [string, Heard])
  heard.delete(id)
}
