import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import type { LightMyRequestResponse as Response } from 'fastify'
import type { Database } from '../../src/db/open.ts'
import { type OpenCounters, openCounters } from '../../src/limit-counters.ts'
import { type TestApp, testApp, token } from '../support/app.ts'
import { forEachEngine, onPostgres } from '../support/engines.ts'
import { rulesOf } from '../support/limits.ts'
import { type RedisUnderTest, redisMissing, redisServer } from '../support/redis.ts'
import { eventually } from '../support/service.ts'

const later = (ms: number, run: () => void) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}

interface Node extends TestApp {
  counters: OpenCounters
  told: string[]
}

const hour = { calls: 100, seconds: 3_600 }
const rules = rulesOf({ general: hour, anonymous: hour, token: { calls: 10, seconds: 3_600 } })

/** Nodes of one service: each with an app and counters of its own, over one database. */
async function nodes(db: Database, count: number, redisUrl: string | null, quota: number | null): Promise<Node[]> {
  const made = Array.from({ length: count }, async () => {
    const told: string[] = []
    const onError = (_: unknown, what: string) => void told.push(what)
    const counters = await openCounters({ db, redisUrl, now: Date.now, later, onError })
    const limits = { rules: { ...rules, quotas: { requests: quota, reports: null } }, counters, monotonic: Date.now }
    const service = await testApp(db, { limits, now: Date.now })
    return { ...service, counters, told }
  })
  return Promise.all(made)
}

async function closeAll(all: Node[]): Promise<void> {
  for (const { app, counters } of all) {
    await app.close()
    await counters.close()
  }
}

/** So many requests of one client at once, spread over the nodes. */
const flood = (all: Node[], count: number, client: string, url = '/products') =>
  Promise.all(
    Array.from({ length: count }, (_, at) => (all[at % all.length] as Node).send({ url, token: token('', client) })),
  )

const statuses = (answers: Response[]) => {
  const counts: Record<number, number> = {}
  for (const { statusCode } of answers) counts[statusCode] = (counts[statusCode] ?? 0) + 1
  return counts
}

/** Each place of the window is handed out once. */
const remaining = (answers: Response[]) =>
  answers
    .filter(({ statusCode }) => statusCode === 200)
    .map(({ headers }) => Number(headers['x-ratelimit-remaining']))
    .sort((one, other) => one - other)

onPostgres((engine) => {
  describe('three nodes that share PostgreSQL', () => {
    let db: Database
    before(async () => {
      db = await engine.database()
    })
    after(() => db.close())

    it('500 requests at once at a limit of 100: exactly 100 succeed (T-RACE-04)', async () => {
      const all = await nodes(db, 3, null, null)
      const answers = await flood(all, 500, 'rate')
      assert.deepEqual(statuses(answers), { 200: 100, 429: 400 })
      assert.deepEqual(
        remaining(answers),
        Array.from({ length: 100 }, (_, at) => at),
      )
      await closeAll(all)
    })

    it('exactly as many as the quota has, and no more after a restart', async () => {
      const all = await nodes(db, 3, null, 40)
      assert.deepEqual(statuses(await flood(all, 60, 'quota')), { 200: 40, 403: 20 })
      await closeAll(all)
      const again = await nodes(db, 1, null, 40)
      assert.deepEqual(statuses(await flood(again, 5, 'quota')), { 403: 5 })
      await closeAll(again)
    })
  })
})

describe('with Redis', { skip: redisMissing }, () => {
  let redis: RedisUnderTest
  before(async () => {
    redis = await redisServer()
  })
  after(() => redis.kill())

  forEachEngine((engine) => {
    let db: Database
    let all: Node[]
    before(async () => {
      db = await engine.database()
      await redis.say('FLUSHALL')
    })
    after(() => db.close())
    beforeEach(async () => {
      all = await nodes(db, 3, redis.url, 1_000)
    })
    afterEach(() => closeAll(all))
    /** All nodes have written down what they have heard. */
    const saved = (client: string, used: number) =>
      eventually(`${used} calls are saved`, async () => {
        const rows = await db.read.selectFrom('quotaUses').select('used').where('key', 'like', `%${client}%`).execute()
        return rows[0]?.used === used
      })

    it('500 requests at once on three nodes at a limit of 100: exactly 100 succeed (T-RACE-04)', async () => {
      const answers = await flood(all, 500, 'rate')
      assert.deepEqual(statuses(answers), { 200: 100, 429: 400 })
      assert.deepEqual(
        remaining(answers),
        Array.from({ length: 100 }, (_, at) => at),
      )
    })

    it('exactly as many as the quota has', async () => {
      await closeAll(all)
      all = await nodes(db, 3, redis.url, 40)
      assert.deepEqual(statuses(await flood(all, 90, 'quota')), { 200: 40, 403: 50 })
    })

    it('a flushed Redis forgets rates and no quota', async () => {
      assert.deepEqual(statuses(await flood(all, 90, 'flushed')), { 200: 90 })
      await saved('flushed', 90)
      await redis.say('FLUSHALL')
      const [answer] = await flood(all, 1, 'flushed')
      assert.equal(answer?.headers['x-ratelimit-remaining'], '99')
      assert.equal(answer?.headers['x-quota-remaining'], '909')
      // Nor do nodes that were not there before.
      await closeAll(all)
      await redis.say('FLUSHALL')
      all = await nodes(db, 1, redis.url, 1_000)
      assert.equal((await flood(all, 1, 'flushed'))[0]?.headers['x-quota-remaining'], '908')
    })

    it('a killed Redis: each node counts rates by itself, the database quotas; back by itself (F-REDIS)', async () => {
      assert.deepEqual(statuses(await flood(all, 30, 'killed')), { 200: 30 })
      await saved('killed', 30)
      await redis.kill()
      const answers = await flood(all, 30, 'killed')
      assert.deepEqual(statuses(answers), { 200: 30 })
      const quotas = answers.map(({ headers }) => Number(headers['x-quota-remaining']))
      assert.deepEqual([Math.max(...quotas), Math.min(...quotas)], [969, 940])
      const before = performance.now()
      for (let call = 0; call < 10; call++) await flood(all, 1, 'killed')
      assert.ok((performance.now() - before) / 10 < 50)
      await redis.start()
      await eventually('all nodes count in Redis again', async () => all.every(({ told }) => told.length === 2))
      const [back] = await flood(all, 1, 'killed')
      assert.equal(back?.headers['x-ratelimit-remaining'], '99')
      assert.equal(back?.headers['x-quota-remaining'], '929')
    })

    it('a paused Redis: nobody waits for it but those who find out', async () => {
      await flood(all, 3, 'paused')
      redis.pause()
      assert.deepEqual(statuses(await flood(all, 3, 'paused')), { 200: 3 })
      const times: number[] = []
      for (let call = 0; call < 20; call++) {
        const before = performance.now()
        await flood(all, 1, 'paused')
        times.push(performance.now() - before)
      }
      redis.resume()
      assert.ok(Math.max(...times) < 50, `${Math.max(...times)} ms`)
      await eventually('all nodes count in Redis again', async () => all.every(({ told }) => told.length === 2))
    })

    it('without Redis the database counts what guards secrets, over all nodes', async () => {
      await redis.kill()
      const strict = all.map(({ counters }) => counters.shared?.strictWindows)
      const counts = await Promise.all(
        strict.flatMap((one) => [one?.add('net:x token', 60), one?.add('net:x token', 60)]),
      )
      assert.deepEqual(counts.map((one) => one?.used).sort(), [1, 2, 3, 4, 5, 6])
      await redis.start()
    })

    it('a service starts without Redis', async () => {
      await redis.kill()
      all.push(...(await nodes(db, 1, redis.url, 1_000)))
      assert.deepEqual(statuses(await flood(all.slice(3), 3, 'alone')), { 200: 3 })
      await redis.start()
    })
  })
})
