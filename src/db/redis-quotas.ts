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
 * Quotas counted in Redis and written to the database every second, by every process what it has heard. Where Redis does
 * not know a key (any more), it goes on from there; while it is away the database counts.
 */
export function redisQuotas(options: RedisQuotasOptions) {
  const { redis, record } = options
  const known = heardUses(options)
  const takeMany = inBatches(async (id, calls) => {
    const [key, period, limit] = JSON.parse(id) as [string, string, number]
    const asked = { limit, calls, endsAtMs: Date.parse(`${period}-01T00:00:00Z`) + keptMs }
    const name = `${key} ${period}`
    const taken =
      (await redis.takeQuota(name, asked)) ?? (await redis.takeQuota(name, asked, await known.least(key, period)))
    if (taken === null) throw new Error('Redis forgets a quota at once')
    known.hear(key, period, taken.used)
    return taken
  })
  const takeFromRecord: QuotaUses['take'] = async (key, period, limit) => {
    await known.save()
    return record.take(key, period, limit)
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
      await redis.backQuota(`${key} ${period}`).catch(() => record.back(key, period))
    },
    look: async (key, period) => {
      const there = await redis.lookQuota(`${key} ${period}`).catch(() => null)
      return there ?? known.least(key, period)
    },
  }
  return { quotas, close: known.close }
}

/** What this process has heard of each key, saved a second later at the latest. */
function heardUses({ record, later, onError, most = 50_000 }: RedisQuotasOptions) {
  const heard = new Map<string, Heard>()
  let cancel: (() => void) | null = null
  let saving = Promise.resolve()
  const saveNow = async () => {
    const due = [...heard.values()].filter(({ isSaved }) => !isSaved)
    if (due.length === 0) return
    await record.raise(due.map(({ key, period, used }): QuotaUse => [key, period, used]))
    for (const one of due) one.isSaved = true
  }
  const save = () => {
    saving = saving.catch(() => {}).then(saveNow)
    return saving
  }
  const arm = () => {
    cancel ??= later(saveEveryMs, () => {
      cancel = null
      save().catch((error) => {
        arm()
        onError(error)
      })
    })
  }
  return {
    save,
    hear: (key: string, period: string, used: number) => {
      const id = `${key} ${period}`
      if (heard.size >= most && !heard.has(id)) makeRoom(heard)
      heard.set(id, { key, period, used, isSaved: false })
      arm()
    },
    /** The least that a key has used, from here and from the database. */
    least: async (key: string, period: string): Promise<number> =>
      Math.max(heard.get(`${key} ${period}`)?.used ?? 0, await record.look(key, period)),
    close: async () => {
      cancel?.()
      await save().catch(onError)
    },
  }
}

/** The oldest that the database knows of; when there is none among the oldest, the very oldest. */
function makeRoom(heard: Map<string, Heard>): void {
  const oldest = [...heard.entries().take(100)]
  const [id] = oldest.find(([, { isSaved }]) => isSaved) ?? (oldest[0] as [string, Heard])
  heard.delete(id)
}
