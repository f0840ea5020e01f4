import type { Redis } from 'ioredis'
import { breaker } from './circuit-breaker.ts'
import { uncountable, type WindowCounter } from './windows.ts'

/**
 * Counters in Redis or Valkey: no call waits longer than `timeoutMs`, and nothing is queued while the server is down.
 */
export interface RedisCounters {
  /** Fixed windows, implemented by rate-limiter-flexible. */
  limiter: WindowCounter
  /**
   * Atomically takes calls from a quota; returns the resulting usage and the number of calls granted. First raises the
   * usage to at least `floor`. Without `floor`, returns null if Redis has no value for the key, for example after a
   * loss of data.
   */
  takeQuota: (key: string, request: QuotaRequest, floor?: number) => Promise<{ used: number; granted: number } | null>
  backQuota: (key: string) => Promise<number>
  lookQuota: (key: string) => Promise<number | null>
  close: () => void
}

export interface QuotaRequest {
  limit: number
  calls: number
  /** The time at which the key may expire, in epoch ms. */
  endsAtMs: number
}

export interface RedisOptions {
  url: string
  /** The timeout for a command; after a timeout, Redis is considered down. */
  timeoutMs?: number
  later: (ms: number, run: () => void) => () => void
  /** Called when Redis stops responding; `onUp` is called when Redis responds again. */
  onDown: (error: unknown) => void
  onUp: () => void
}

const usualTimeoutMs = 50
const maxRetryMs = 1_000

const quotaScript = `
local floor = tonumber(ARGV[4])
local used = math.max(tonumber(redis.call('get', KEYS[1]) or floor), floor)
if used < 0 then return {-1, 0} end
local limit, calls = tonumber(ARGV[1]), tonumber(ARGV[2])
local granted = math.max(0, math.min(calls, limit - used))
used = used + granted
redis.call('set', KEYS[1], used, 'PXAT', ARGV[3])
return {used, granted}`

const backScript = `
local used = tonumber(redis.call('get', KEYS[1]) or '0')
if used < 1 then return 0 end
return redis.call('decr', KEYS[1])`

type Scripted = Redis & {
  plinthQuota: (key: string, ...values: number[]) => Promise<[number, number]>
  plinthBack: (key: string) => Promise<number>
}

/** Connects to Redis, and reconnects whenever the connection is lost. Loads the client library on demand. */
export async function openRedis(options: RedisOptions): Promise<RedisCounters> {
  const { url, timeoutMs = usualTimeoutMs, later, onDown, onUp } = options
  const [{ Redis }, { RateLimiterRedis }] = await Promise.all([import('ioredis'), import('rate-limiter-flexible')])
  const redis = new Redis(url, {
    keyPrefix: 'plinth:',
    connectTimeout: 1_000,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    retryStrategy: (times) => Math.min(times * 50, maxRetryMs),
    scripts: { plinthQuota: { lua: quotaScript, numberOfKeys: 1 }, plinthBack: { lua: backScript, numberOfKeys: 1 } },
  }) as Scripted
  const gate = breaker({ timeoutMs, probe: () => redis.ping(), later, onDown, onUp })
  // Connection errors are reported by the commands that they cause to fail.
  redis.on('error', () => {})
  await connected(redis, later)
  const limiter = new RateLimiterRedis({
    ...{ storeClient: redis, rejectIfRedisNotReady: true, keyPrefix: 'w', points: uncountable, duration: 60 },
  })
  return {
    limiter: {
      consume: (key, calls, options) => gate.ask(() => limiter.consume(key, calls, options)),
      get: (key) => gate.ask(() => limiter.get(key)),
    },
    takeQuota: async (key, { limit, calls, endsAtMs }, floor = -1) => {
      const [used, granted] = await gate.ask(() => redis.plinthQuota(`q:${key}`, limit, calls, endsAtMs, floor))
      return used < 0 ? null : { used, granted }
    },
    backQuota: (key) => gate.ask(() => redis.plinthBack(`q:${key}`)),
    lookQuota: async (key) => {
      const used = await gate.ask(() => redis.get(`q:${key}`))
      return used === null ? null : Number(used)
    },
    close: () => {
      gate.close()
      redis.disconnect()
    },
  }
}

/** Waits briefly for the first connection; the service can also start without Redis. */
async function connected(redis: Redis, later: RedisOptions['later']): Promise<void> {
  await new Promise<void>((resolve) => {
    const giveUp = later(maxRetryMs, resolve)
    for (const event of ['ready', 'close']) redis.once(event, resolve)
    redis.once('ready', giveUp)
  })
}
