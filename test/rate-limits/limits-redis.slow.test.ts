import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { LightMyRequestResponse as Response } from 'fastify'
import { type OpenCounters, openCounters } from '../../src/rate-limits/open.ts'
import type { Database } from '../../src/storage/database.ts'
import { type TestApp, testApp, token } from '../support/app.ts'
import { type EngineUnderTest, forEachEngine, onPostgres } from '../support/engines.ts'
import { rulesOf } from '../support/limits.ts'
import { type RedisUnderTest, redisMissing, redisServer } from '../support/redis.ts'
import { eventually } from '../support/service.ts'

const later = (ms: number, run: () => void) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}

interface Node extends TestApp {
  counters: OpenCounters
  reports: string[]
}

const hour = { calls: 100, seconds: 3_600 }
const rules = rulesOf({ general: hour, anonymous: hour, token: { calls: 10, seconds: 3_600 } })

const readApiKey = (id: string) => ({ id, rate: null, quota: 40 })

/** A timeout that is long enough even if other processes use all CPU cores. */
const patientMs = 5_000
/** A shorter timeout for tests of outages, in which some calls must first time out. */
const outageMs = 2_000

/** Starts nodes of one service, each with its own app and counters, over one database. */
async function nodes(db: Database, count: number, redisUrl: string | null, timeoutMs?: number): Promise<Node[]> {
  const opened = Array.from({ length: count }, async () => {
    const reports: string[] = []
    const onNotice = ({ what }: { what: string }) => void reports.push(what)
    const counters = await openCounters({ db, redisUrl, timeoutMs, now: Date.now, later, onNotice })
    const limits = { rules: { ...rules, quotas: { requests: 1_000, reports: null } }, counters, monotonic: Date.now }
    const service = await testApp(db, { prefixes: [''], limits, now: Date.now, readApiKey })
    return { ...service, counters, reports }
  })
  return Promise.all(opened)
}

async function closeAll(all: Node[]): Promise<void> {
  for (const { app, counters } of all) {
    await app.close()
    await counters.close()
  }
}

/**
 * Sends `count` concurrent requests from one client, spread over the nodes; optionally with an API key that has a quota of
 * 40.
 */
const flood = (all: Node[], count: number, client: string, key?: string, url = '/products') =>
  Promise.all(
    Array.from({ length: count }, (_, at) => {
      const headers = key === undefined ? {} : { 'x-api-key': key }
      return (all[at % all.length] as Node).send({ url, token: token('', client), headers })
    }),
  )

const statuses = (responses: Response[]) => {
  const counts: Record<number, number> = {}
  for (const { statusCode } of responses) counts[statusCode] = (counts[statusCode] ?? 0) + 1
  return counts
}

/** Returns the remaining calls that the successful responses report, in ascending order. */
const remaining = (responses: Response[]) =>
  responses
    .filter(({ statusCode }) => statusCode === 200)
    .map(({ headers }) => Number(headers['x-ratelimit-remaining']))
    .sort((one, other) => one - other)

onPostgres((engine) => {
  describe('three nodes that share PostgreSQL', () => {
    let db: Database
    let all: Node[]
    before(async () => {
      db = await engine.database()
      all = await nodes(db, 3, null, patientMs)
    })
    after(async () => {
      await closeAll(all)
      await db.close()
    })

    it('200 for exactly 100 of 500 concurrent requests at a limit of 100 (T-RACE-04)', async () => {
      const responses = await flood(all, 500, 'rate')
      assert.deepEqual(statuses(responses), { 200: 100, 429: 400 })
      assert.deepEqual(
        remaining(responses),
        Array.from({ length: 100 }, (_, at) => at),
      )
    })

    it('200 for exactly as many requests as the quota allows, then 403, even from a new node', async () => {
      assert.deepEqual(statuses(await flood(all, 60, 'quota', 'key')), { 200: 40, 403: 20 })
      const again = await nodes(db, 1, null, patientMs)
      assert.deepEqual(statuses(await flood(again, 5, 'quota', 'key')), { 403: 5 })
      await closeAll(again)
    })
  })
})

describe('rate limits with Redis', { skip: redisMissing }, () => {
  let redis: RedisUnderTest
  before(async () => {
    redis = await redisServer()
  })
  after(() => redis.kill())

  /** Starts three nodes over a new database and an emptied Redis. */
  const three = (engine: EngineUnderTest, timeoutMs?: number) => {
    const suite = {} as { db: Database; all: Node[] }
    before(async () => {
      suite.db = await engine.database()
      await redis.say('FLUSHALL')
      suite.all = await nodes(suite.db, 3, redis.url, timeoutMs)
    })
    after(async () => {
      await closeAll(suite.all)
      await suite.db.close()
    })
    return suite
  }
  /** Waits until the nodes have saved this usage. */
  const saved = (db: Database, client: string, used: number) =>
    eventually(`${used} calls are saved`, async () => {
      const rows = await db.read.selectFrom('quotaUses').select('used').where('key', 'like', `%${client}%`).execute()
      return rows[0]?.used === used
    })

  forEachEngine((engine) => {
    const suite = three(engine, patientMs)

    it('200 for exactly 100 of 500 concurrent requests to three nodes at a limit of 100 (T-RACE-04)', async () => {
      const responses = await flood(suite.all, 500, 'rate')
      assert.deepEqual(statuses(responses), { 200: 100, 429: 400 })
      assert.deepEqual(
        remaining(responses),
        Array.from({ length: 100 }, (_, at) => at),
      )
    })

    it('200 for exactly as many requests as the quota allows', async () => {
      assert.deepEqual(statuses(await flood(suite.all, 90, 'quota', 'key')), { 200: 40, 403: 50 })
    })

    it('flushing Redis loses rate counts, but no quota usage', async () => {
      assert.deepEqual(statuses(await flood(suite.all, 90, 'flushed')), { 200: 90 })
      await saved(suite.db, 'flushed', 90)
      await redis.say('FLUSHALL')
      const [response] = await flood(suite.all, 1, 'flushed')
      assert.equal(response?.headers['x-ratelimit-remaining'], '99')
      assert.equal(response?.headers['x-quota-remaining'], '909')
      // A newly started node must also know the quota usage.
      await saved(suite.db, 'flushed', 91)
      await redis.say('FLUSHALL')
      const another = await nodes(suite.db, 1, redis.url, patientMs)
      assert.equal((await flood(another, 1, 'flushed'))[0]?.headers['x-quota-remaining'], '908')
      await closeAll(another)
    })
  })

  forEachEngine((engine) => {
    const suite = three(engine, outageMs)
    const countAgain = () =>
      eventually('all nodes count in Redis again', async () =>
        suite.all.every(({ reports }) => reports.length === 0 || reports.at(-1) === 'up'),
      )
    /** Asserts that each call completes well before the Redis timeout. */
    const noCallWaits = async (client: string, calls: number) => {
      for (let call = 0; call < calls; call++) {
        const before = performance.now()
        await flood(suite.all, 1, client)
        const ms = performance.now() - before
        assert.ok(ms < outageMs / 2, `${ms} ms`)
      }
    }

    it('while Redis is down, no call waits; each node counts its own rates, and the database counts quotas (F-REDIS)', async () => {
      assert.deepEqual(statuses(await flood(suite.all, 30, 'killed')), { 200: 30 })
      await saved(suite.db, 'killed', 30)
      await redis.kill()
      const responses = await flood(suite.all, 30, 'killed')
      assert.deepEqual(statuses(responses), { 200: 30 })
      const quotas = responses.map(({ headers }) => Number(headers['x-quota-remaining']))
      assert.deepEqual([Math.max(...quotas), Math.min(...quotas)], [969, 940])
      // Each node counts only its own calls now, and continues from the last shared count that it knows.
      for (const node of suite.all.keys()) {
        const rates = remaining(responses.filter((_, at) => at % suite.all.length === node))
        const [lowest = 0] = rates
        assert.deepEqual(
          rates,
          Array.from({ length: 10 }, (_, at) => lowest + at),
        )
        assert.ok(lowest >= 60 && lowest <= 80, `${lowest} calls remain`)
      }
      await noCallWaits('killed', 10)
      await redis.start()
      await countAgain()
      const [back] = await flood(suite.all, 1, 'killed')
      assert.equal(back?.headers['x-ratelimit-remaining'], '99')
      assert.equal(back?.headers['x-quota-remaining'], '929')
    })

    it('a paused Redis delays only the calls that detect the pause, and loses no usage', async () => {
      await flood(suite.all, 6, 'paused')
      await flood(suite.all, 6, 'paused', 'paused')
      // Usage is saved to the database every second. Until then, it is stored only in Redis.
      await eventually('both uses are saved', async () => {
        const rows = await suite.db.read
          .selectFrom('quotaUses')
          .select('used')
          .where('key', 'like', '%paused%')
          .execute()
        return rows.length === 2 && rows.every(({ used }) => used === 6)
      })
      redis.pause()
      assert.deepEqual(statuses(await flood(suite.all, 3, 'paused')), { 200: 3 })
      await noCallWaits('paused', 20)
      const away = await flood(suite.all, 30, 'paused', 'paused')
      redis.resume()
      assert.deepEqual(statuses(away), { 200: 30 })
      await countAgain()
      // The API key has used 36 of its 40 calls, counted partly in Redis and partly in the database.
      const { quotas } = (await flood(suite.all, 1, 'paused', 'paused', '/api/usage'))[0]?.json() ?? {}
      assert.equal(quotas[0].remaining, 4)
      assert.deepEqual(statuses(await flood(suite.all, 9, 'paused', 'paused')), { 200: 4, 403: 5 })
    })

    it('strict limits are counted in the database, across all nodes, while Redis is unavailable', async () => {
      await redis.kill()
      const strict = suite.all.map(({ counters }) => counters.shared?.strictWindows)
      const counts = await Promise.all(
        strict.flatMap((one) => [one?.add('net:x token', 60), one?.add('net:x token', 60)]),
      )
      assert.deepEqual(counts.map((one) => one?.used).sort(), [1, 2, 3, 4, 5, 6])
      await redis.start()
      await countAgain()
    })

    it('the service starts even if Redis is down or requires a password that the service does not have', async () => {
      await redis.say('CONFIG', 'SET', 'requirepass', 'secret')
      const stranger = await nodes(suite.db, 1, redis.url)
      assert.deepEqual(statuses(await flood(stranger, 3, 'stranger')), { 200: 3 })
      await redis.kill()
      const alone = await nodes(suite.db, 1, redis.url)
      assert.deepEqual(statuses(await flood(alone, 3, 'alone')), { 200: 3 })
      await redis.start()
      await closeAll([...stranger, ...alone])
    })
  })
})
