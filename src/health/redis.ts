import type { Check, HealthContext } from './check.ts'
import { pass, warn } from './check.ts'

const connectMs = 1_500

/** Returns Redis's eviction policy; null if the server does not report it. Rejects if the server does not respond. */
async function evictionPolicy(url: string): Promise<string | null> {
  // Loaded on demand, because most services do not use Redis.
  const { Redis } = await import('ioredis')
  const redis = new Redis(url, {
    ...{ lazyConnect: true, connectTimeout: connectMs, commandTimeout: connectMs },
    ...{ maxRetriesPerRequest: 0, retryStrategy: () => null },
  })
  let cause: Error | undefined
  redis.on('error', (error) => {
    cause ??= error as Error
  })
  try {
    await redis.connect()
    const memory = await redis.info('memory')
    return /^maxmemory_policy:(\S+)/m.exec(memory)?.[1] ?? null
  } catch (error) {
    // The command's own error says only that the connection is closed.
    throw cause ?? error
  } finally {
    redis.disconnect()
  }
}

/** Checks the Redis server that counts requests for all nodes. */
export const redisCheck: Check<HealthContext> = {
  id: 'settings.redis',
  area: 'settings',
  title: 'Redis',
  rule: 'With `REDIS_URL`: warns if the server does not respond, or may evict counters',
  run: async ({ config: { rateLimits } }) => {
    const { redisUrl } = rateLimits
    if (redisUrl === null) return null
    try {
      const policy = await evictionPolicy(redisUrl)
      if (policy?.startsWith('allkeys')) {
        return warn(
          `Its eviction policy ${policy} may remove counters before they expire`,
          'Run `redis-cli config set maxmemory-policy noeviction`, or use a Redis server of its own',
        )
      }
      return pass(policy === null ? 'Responds' : `Responds; eviction policy ${policy}`)
    } catch (error) {
      const { message } = error as Error
      return warn(
        `Does not respond (${message}); each node counts requests by itself`,
        'Start the server, or correct or remove REDIS_URL',
      )
    }
  },
}
