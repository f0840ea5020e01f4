import { type Database, maxConnections } from '../storage/database.ts'
import { openDatabase } from '../storage/open.ts'
import type { Counters } from './limit.ts'
import { breaker } from './stores/circuit-breaker.ts'
import { quotaUses } from './stores/quotas.ts'
import { openRedis } from './stores/redis.ts'
import { redisQuotas } from './stores/redis-quotas.ts'
import { type LimitWindows, windowsIn, windowsOf } from './stores/windows.ts'

export interface LimitCountersOptions {
  db: Database
  redisUrl: string | null
  /** The number of threads that share the connections to PostgreSQL; 1 by default. */
  divisor?: number
  /** Timeout for the shared store in ms; default: 50 for Redis, 500 for PostgreSQL. */
  timeoutMs?: number
  now: () => number
  later: (ms: number, run: () => void) => () => void
  /** Called when the shared store stops or resumes responding, and when quotas in Redis could not be saved. */
  onNotice: (notice: CounterNotice) => void
}

export type CounterNotice =
  | { what: 'down'; store: string; error: unknown }
  | { what: 'up'; store: string }
  | { what: 'unsaved'; error: unknown }

export interface OpenCounters extends Counters {
  close: () => Promise<void>
}

const postgresTimeoutMs = 500

/**
 * Opens the counters: in Redis if it is configured, otherwise in PostgreSQL, which other nodes may share, otherwise in
 * this process. PostgreSQL counters use their own connection pool, so counting a request never waits for the work of
 * other requests. If opening fails, closes everything before rejecting.
 */
export async function openCounters(options: LimitCountersOptions): Promise<OpenCounters> {
  const { db, divisor = 1 } = options
  const counting = { poolSize: maxConnections.counters, divisor, isBestEffort: true }
  const own = db.engine.name === 'postgres' ? await openDatabase(db.url, counting) : null
  return countersOver(options, own).catch(async (error) => {
    await own?.close()
    throw error
  })
}

async function countersOver(options: LimitCountersOptions, own: Database | null): Promise<OpenCounters> {
  const { db, redisUrl, now } = options
  const record = quotaUses(own ?? db)
  const windows = await windowsIn(own ?? db, now)
  const closeOwn = async () => void (await own?.close())
  if (redisUrl !== null) return inRedis({ ...options, redisUrl }, record, windows, closeOwn)
  if (own === null) return { record, shared: null, close: closeOwn }
  const { timeoutMs = postgresTimeoutMs, later } = options
  const gate = breaker({ timeoutMs, probe: own.ping, later, ...outageLog(options, 'PostgreSQL') })
  const guarded = guardedBy(gate, windows)
  const close = async () => {
    gate.close()
    await closeOwn()
  }
  return { record, shared: { windows: guarded, strictWindows: guarded, quotas: record }, close }
}

async function inRedis(
  options: LimitCountersOptions & { redisUrl: string },
  record: Counters['record'] & Parameters<typeof redisQuotas>[0]['record'],
  windows: LimitWindows,
  closeOwn: () => Promise<void>,
): Promise<OpenCounters> {
  const { redisUrl: url, timeoutMs, later, now, onNotice } = options
  const redis = await openRedis({ url, timeoutMs, later, ...outageLog(options, 'Redis') })
  const inRedis = windowsOf(redis.limiter, now)
  const saved = (error: unknown) => onNotice({ what: 'unsaved', error })
  const { quotas, close } = redisQuotas({ redis, record, later, onError: saved })
  const strictWindows: LimitWindows = {
    ...inRedis,
    add: (key, seconds) => inRedis.add(key, seconds).catch(() => windows.add(key, seconds)),
  }
  return {
    record,
    shared: { windows: inRedis, strictWindows, quotas },
    close: async () => {
      await close()
      redis.close()
      await closeOwn()
    },
  }
}

const outageLog = ({ onNotice }: LimitCountersOptions, store: string) => ({
  onDown: (error: unknown) => onNotice({ what: 'down', store, error }),
  onUp: () => onNotice({ what: 'up', store }),
})

const guardedBy = ({ ask }: ReturnType<typeof breaker>, { add, look }: LimitWindows): LimitWindows => ({
  add: (key, seconds) => ask(() => add(key, seconds)),
  look: (key) => ask(() => look(key)),
})
