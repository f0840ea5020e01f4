import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { StoreDown } from '../../src/rate-limits/stores/circuit-breaker.ts'
import { type QuotaUses, quotaUses } from '../../src/rate-limits/stores/quotas.ts'
import { openRedis, type RedisCounters } from '../../src/rate-limits/stores/redis.ts'
import { redisQuotas } from '../../src/rate-limits/stores/redis-quotas.ts'
import type { Database } from '../../src/storage/database.ts'
import { onSqlite } from '../support/engines.ts'
import { type RedisUnderTest, redisMissing, redisServer } from '../support/redis.ts'
import { drivenTimers, until } from '../support/timers.ts'

const month = '2026-11'
const later = (ms: number, run: () => void) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}

describe('the Redis quota counter', { skip: redisMissing }, () => {
  onSqlite((engine) => {
    let server: RedisUnderTest
    let redis: RedisCounters
    let db: Database
    before(async () => {
      ;[server, db] = await Promise.all([redisServer(), engine.database()])
      redis = await openRedis({ url: server.url, timeoutMs: 5_000, later, onDown: () => {}, onUp: () => {} })
    })
    after(async () => {
      redis.close()
      await server.kill()
      await db.close()
    })
    const counting = (change: (uses: QuotaUses) => Partial<QuotaUses>) => {
      const timers = drivenTimers()
      const uses = quotaUses(db)
      const reported: unknown[] = []
      const record = { ...uses, ...change(uses) }
      const onError = (error: unknown) => void reported.push(error)
      return { ...redisQuotas({ redis, record, later: timers.later, onError }), timers, reported }
    }

    it('waits at most 50 ms for Redis, then not at all until it retries after 500 ms', async () => {
      const timers = drivenTimers()
      const reported: string[] = []
      const usual = await openRedis({
        ...{ url: server.url, later: timers.later },
        ...{ onDown: () => void reported.push('down'), onUp: () => void reported.push('up') },
      })
      server.pause()
      const asked = usual.lookQuota('paused')
      timers.pass(49)
      await new Promise(setImmediate)
      assert.deepEqual([reported, timers.pending()], [[], [1]])
      timers.pass(1)
      await assert.rejects(asked, StoreDown)
      await assert.rejects(usual.lookQuota('paused'), StoreDown)
      assert.deepEqual([reported, timers.pending()], [['down'], [500]])
      server.resume()
      timers.pass(500)
      await until(() => reported.at(-1) === 'up')
      assert.equal(await usual.lookQuota('paused'), null)
      usual.close()
    })

    it('reports counters that cannot be saved, and retries every second until the service stops', async () => {
      const saves: string[] = []
      const raise = async () => {
        saves.push('tried')
        throw new Error('the disk is full')
      }
      const { quotas, close, timers, reported } = counting(() => ({ raise }))
      await quotas.take('unsaved', month, 9)
      timers.pass(1_000)
      while (reported.length === 0) await new Promise(setImmediate)
      assert.deepEqual([saves.length, timers.pending()], [1, [1_000]])
      timers.pass(1_000)
      await close()
      while (reported.length < 3) await new Promise(setImmediate)
      assert.deepEqual([saves.length, timers.pending()], [3, []])
    })

    it('saves a key’s usage at its first call after Redis goes down, and the other keys’ usage on closing', async () => {
      const raised: string[][] = []
      const { quotas, close } = counting((uses) => ({
        raise: (all) => {
          raised.push(all.map(([key]) => key))
          return uses.raise(all)
        },
      }))
      for (const key of ['one', 'two', 'three']) await quotas.take(key, month, 9)
      await server.kill()
      const taken = await Promise.all(Array.from({ length: 9 }, () => quotas.take('one', month, 9)))
      assert.deepEqual(
        taken.filter(({ isGranted }) => isGranted).map(({ used }) => used),
        [2, 3, 4, 5, 6, 7, 8, 9],
      )
      assert.deepEqual(raised, [['one']])
      await close()
      assert.deepEqual(raised, [['one'], ['two', 'three']])
    })
  })
})
