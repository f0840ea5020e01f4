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
export function redisQuotas({ redis, record, later, onError, most = 50_000 }: RedisQuotasOptions) {
  const heard = new Map<string, Heard>()
  let cancel: (() => void) | null = null

  const hear = (id: string, key: string, period: string, used: number): Heard => {
    const before = heard.get(id)
    const now = { key, period, used, isSaved: before?.used === used && before.isSaved }
    if (before === undefined && heard.size >= most) makeRoom(heard)
    heard.set(id, now)
    return now
  }
  const save = async () => {
    cancel = null
    const due = [...heard.values()].filter(({ isSaved }) => !isSaved)
    if (due.length === 0) return
    for (const one of due) one.isSaved = true
    await record.raise(due.map(({ key, period, used }): QuotaUse => [key, period, used])).catch((error) => {
      for (const one of due) one.isSaved = false
      saveSoon()
      onError(error)
    })
  }
  const saveSoon = () => {
    cancel ??= later(saveEveryMs, () => void save())
  }
  const floorOf = async (id: string, key: string, period: string) =>
    heard.get(id) ?? hear(id, key, period, await record.look(key, period))

  const takeMany = inBatches(async (id, calls) => {
    const [key, period, limit] = JSON.parse(id) as [string, string, number]
    const name = `${key} ${period}`
    const floor = await floorOf(name, key, period)
    const endsAtMs = Date.parse(`${period}-01T00:00:00Z`) + keptMs
    const [used, granted] = await redis.takeQuota(name, floor.used, limit, calls, endsAtMs)
    hear(name, key, period, used)
    saveSoon()
    return { used, granted }
  })
  const takeFromRecord: QuotaUses['take'] = async (key, period, limit) => {
    const known = heard.get(`${key} ${period}`)
    if (known !== undefined && !known.isSaved) {
      await record.raise([[key, period, known.used]])
      known.isSaved = true
    }
    const taken = await record.take(key, period, limit)
    hear(`${key} ${period}`, key, period, Math.max(taken.used, known?.used ?? 0)).isSaved = true
    return taken
  }
  const quotas: Pick<QuotaUses, 'take' | 'back' | 'look'> = {
    take: async (key, period, limit) => {
      let batched: Awaited<ReturnType<typeof takeMany>>
      try {
        batched = await takeMany(JSON.stringify([key, period, limit]))
      } catch {
        return takeFromRecord(key, period, limit)
      }
      const { result, place } = batched
      const isGranted = place < result.granted
      return { used: isGranted ? result.used - result.granted + place + 1 : result.used, isGranted }
    },
    back: async (key, period) => {
      try {
        hear(`${key} ${period}`, key, period, await redis.backQuota(`${key} ${period}`))
      } catch {
        await record.back(key, period)
      }
    },
    look: async (key, period) => {
      const known = (await floorOf(`${key} ${period}`, key, period)).used
      const there = await redis.lookQuota(`${key} ${period}`).catch(() => 0)
      return Math.max(known, there)
    },
  }
  return {
    quotas,
    close: async () => {
      cancel?.()
      await save()
    },
  }
}

/** The oldest that the database knows of; when there is none among the oldest, the very oldest. */
function makeRoom(heard: Map<string, Heard>): void {
  const oldest = [...heard.entries().take(100)]
  const [id] = oldest.find(([, { isSaved }]) => isSaved) ?? (oldest[0] as [string, Heard])
  heard.delete(id)
}
