import type { Redis } from 'ioredis'
import { breaker } from './breaker.ts'
import { type Limiter, uncountable } from './limit-windows.ts'

/** Counting in Redis or Valkey: nobody waits for it longer than `commandMs`, nothing is queued while it is away. */
export interface RedisCounters {
  /** Calls in windows, by rate-limiter-flexible. */
  limiter: Limiter
  /**
   * Takes calls of a quota in one step, from `floor` on where less is known there: the memory of Redis is not for ever.
   * Gives what there is after them, and how many were granted.
   */
  takeQuota: (key: string, floor: number, limit: number, calls: number, endsAtMs: number) => Promise<[number, number]>
  backQuota: (key: string) => Promise<number>
  lookQuota: (key: string) => Promise<number>
  close: () => void
}

export interface RedisOptions {
  url: string
  later: (ms: number, run: () => void) => () => void
  /** Is told when Redis stops answering, and when it answers again. */
  onDown: (error: unknown) => void
  onUp: () => void
}

const commandMs = 50
const longestRetryMs = 1_000

const quotaScript = `
local used = tonumber(redis.call('get', KEYS[1]) or '0')
local floor, limit, calls = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if used < floor then used = floor end
local granted = math.max(0, math.min(calls, limit - used))
used = used + granted
redis.call('set', KEYS[1], used, 'PXAT', ARGV[4])
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
export async function openRedis({ url, later, onDown, onUp }: RedisOptions): Promise<RedisCounters> {
  const [{ Redis }, { RateLimiterRedis }] = await Promise.all([import('ioredis'), import('rate-limiter-flexible')])
  const redis = new Redis(url, {
    keyPrefix: 'plinth:',
    commandTimeout: commandMs,
    connectTimeout: 1_000,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    retryStrategy: (times) => Math.min(times * 50, longestRetryMs),
    scripts: { plinthQuota: { lua: quotaScript, numberOfKeys: 1 }, plinthBack: { lua: backScript, numberOfKeys: 1 } },
  }) as Scripted
  const gate = breaker({ probe: () => redis.ping(), later, onDown, onUp })
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
    takeQuota: (key, ...values) => gate.ask(() => redis.plinthQuota(`q:${key}`, ...values)),
    backQuota: (key) => gate.ask(() => redis.plinthBack(`q:${key}`)),
    lookQuota: (key) => gate.ask(async () => Number((await redis.get(`q:${key}`)) ?? 0)),
    close: () => {
      gate.close()
      redis.disconnect()
    },
  }
}

/** Waits for the first connection, not for long: a service starts without Redis, too. */
async function connected(redis: Redis, later: RedisOptions['later']): Promise<void> {
  await new Promise<void>((resolve) => {
    const giveUp = later(longestRetryMs, resolve)
    for (const event of ['ready', 'close']) redis.once(event, resolve)
    redis.once('ready', giveUp)
  })
}
