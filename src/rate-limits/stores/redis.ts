import type { Redis } from 'ioredis'
import { breaker } from './circuit-breaker.ts'
import { type Limiter, uncountable } from './windows.ts'

/** Counting in Redis or Valkey: nobody waits for it longer than `timeoutMs`, nothing is queued while it is away. */
export interface RedisCounters {
  /** Calls in windows, by rate-limiter-flexible. */
  limiter: Limiter
  /**
   * Takes calls of a quota in one step: gives what is used after them, and how many were granted. Null where the key is not
   * known, as the memory of Redis is not for ever, unless `floor` tells how much was used at least.
   */
  takeQuota: (key: string, asked: QuotaAsked, floor?: number) => Promise<{ used: number; granted: number } | null>
  backQuota: (key: string) => Promise<number>
  lookQuota: (key: string) => Promise<number | null>
  close: () => void
}

export interface QuotaAsked {
  limit: number
  calls: number
  /** When the key may be forgotten. */
  endsAtMs: number
}

export interface RedisOptions {
  url: string
  /** How long an answer may take before Redis counts as down. */
  timeoutMs?: number
  later: (ms: number, run: () => void) => () => void
  /** Is told when Redis stops answering, and when it answers again. */
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

/** Connects in the background and again whenever the connection ends; the client is loaded where it is used. */
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
  // What matters of it is told by the command that fails.
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

/** Waits for the first connection, not for long: a service starts without Redis, too. */
async function connected(redis: Redis, later: RedisOptions['later']): Promise<void> {
  await new Promise<void>((resolve) => {
    const giveUp = later(maxRetryMs, resolve)
    for (const event of ['ready', 'close']) redis.once(event, resolve)
    redis.once('ready', giveUp)
  })
}
