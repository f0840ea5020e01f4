import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import { type LoopMetrics, levelOf, loadShedder } from '../../src/http/policies/overload.ts'
import type { Database } from '../../src/storage/database.ts'
import { testApp } from '../support/app.ts'
import { onSqlite } from '../support/engines.ts'
import { documentedApp } from '../support/openapi.ts'
import { drivenTimers, until } from '../support/timers.ts'

const rest: LoopMetrics = { delayMs: 1, utilization: 0.2, cpuShare: 0.2 }

describe('levelOf', () => {
  it('returns 0 if the event loop is at least half idle or barely delayed, otherwise 1 to 4 depending on the delay', () => {
    assert.equal(levelOf({ delayMs: 5_000, utilization: 0.5, cpuShare: 0.5 }), 0)
    assert.equal(levelOf({ delayMs: 99, utilization: 1, cpuShare: 1 }), 0)
    assert.deepEqual(
      [100, 150, 225, 350, 9_999].map((delayMs) => levelOf({ delayMs, utilization: 1, cpuShare: 1 })),
      [1, 2, 3, 4, 4],
    )
  })

  it('counts only delay caused by the service itself, and returns 0 if other processes use the CPU', () => {
    assert.equal(levelOf({ delayMs: 650, utilization: 1, cpuShare: 0.15 }), 0)
    assert.equal(levelOf({ delayMs: 650, utilization: 1, cpuShare: 0.5 }), 3)
    assert.equal(levelOf({ delayMs: 120, utilization: 0.95, cpuShare: 0.95 }), 1)
    assert.equal(levelOf({ delayMs: 120, utilization: 0.95, cpuShare: 1.02 }), 1, 'clocks of their own may disagree')
  })
})

onSqlite((engine) => {
  describe('the overload policy', () => {
    let db: Database
    let service: Awaited<ReturnType<typeof testApp>>
    let timers: ReturnType<typeof drivenTimers>
    let strain = rest
    let chance = 0.99
    let held: (() => void)[] = []
    before(async () => {
      db = await engine.database()
      timers = drivenTimers()
      const overload = { measure: () => strain, random: () => chance, maxInFlight: 10 }
      service = await testApp(db, { overload, later: timers.later }, (app) => {
        const config = { scope: 'public' }
        const hold = () => new Promise<object>((resolve) => held.push(() => resolve({})))
        app.get('/held', { config }, hold)
        app.get('/parked', { config: { ...config, waits: true } }, hold)
      })
      // The overload policy ignores its first two seconds.
      for (let look = 0; look < 10; look++) timers.pass(200)
    })
    beforeEach(() => {
      strain = rest
      for (let look = 0; look < 4; look++) timers.pass(200)
      held = []
    })
    after(async () => {
      service.faults.splice(0)
      await service.app.close()
      await db.close()
    })
    const product = { name: 'Lamp', price: 1 }
    const asked = {
      list: () => service.send({ url: '/products' }),
      write: () => service.send({ method: 'POST', url: '/products', payload: product }),
      status: () => service.send({ url: `/api/reports/tsk_${'A'.repeat(22)}/status` }),
      download: () => service.send({ url: `/api/reports/tsk_${'A'.repeat(22)}/download` }),
      health: () => service.send({ url: '/readyz', scopes: null }),
    }
    type Kind = keyof typeof asked
    const shed = async () => {
      const kinds = Object.keys(asked) as Kind[]
      const answers = await Promise.all(kinds.map((kind) => asked[kind]()))
      return kinds.filter((_, at) => answers[at]?.statusCode === 503)
    }

    it('sheds nothing in the first two seconds, while the process still compiles its code', async () => {
      strain = { delayMs: 500, utilization: 1, cpuShare: 1 }
      const starting = drivenTimers()
      const shedder = loadShedder({ measure: () => strain, random: () => chance, later: starting.later })
      for (let look = 0; look < 10; look++) starting.pass(200)
      assert.equal(shedder.isShed('list'), false)
      starting.pass(200)
      assert.equal(shedder.isShed('list'), true)
      shedder.stop()
    })

    it('sheds lists, then writes, then status and download requests, but never health checks, one level at a time', async () => {
      strain = { delayMs: 500, utilization: 1, cpuShare: 1 }
      assert.deepEqual(await shed(), [])
      timers.pass(200)
      assert.deepEqual(await shed(), [])
      timers.pass(200)
      assert.deepEqual(await shed(), ['list'])
      timers.pass(200)
      assert.deepEqual(await shed(), ['list', 'write'])
      timers.pass(200)
      assert.deepEqual(await shed(), ['list', 'write', 'status', 'download'])
      strain = rest
      timers.pass(200)
      assert.deepEqual(await shed(), ['list', 'write'])
      timers.pass(200)
      timers.pass(200)
      assert.deepEqual(await shed(), [])
    })

    it('sheds nothing while other processes use the CPU, regardless of the delay', async () => {
      strain = { delayMs: 900, utilization: 1, cpuShare: 0.1 }
      for (let look = 0; look < 5; look++) timers.pass(200)
      assert.deepEqual(await shed(), [])
      strain = { delayMs: 900, utilization: 1, cpuShare: 0.9 }
      for (let look = 0; look < 4; look++) timers.pass(200)
      assert.deepEqual(await shed(), ['list', 'write', 'status', 'download'])
    })

    it('sheds nothing after a single delay, however long', async () => {
      strain = { delayMs: 900, utilization: 1, cpuShare: 1 }
      timers.pass(200)
      assert.deepEqual(await shed(), [])
      strain = rest
      timers.pass(200)
      assert.deepEqual(await shed(), [])
    })

    it('503 with a random Retry-After of one to five seconds', async () => {
      strain = { delayMs: 120, utilization: 1, cpuShare: 1 }
      for (let look = 0; look < 2; look++) timers.pass(200)
      const waits = []
      for (chance of [0, 0.2, 0.5, 0.99]) {
        const answer = await asked.list()
        assert.deepEqual([answer.statusCode, answer.json().errorCode], [503, 'SERVICE_UNAVAILABLE'])
        assert.equal(answer.headers['content-type'], 'application/problem+json; charset=utf-8')
        assert.ok(answer.headers['x-request-id'] && answer.headers['strict-transport-security'])
        waits.push(answer.headers['retry-after'])
      }
      assert.deepEqual(waits, ['1', '2', '3', '5'])
    })

    it('sheds in the same order if too many requests are in flight; requests that wait for a change do not count', async () => {
      const parked = Array.from({ length: 12 }, () => service.send({ url: '/parked', scopes: null }))
      await until(() => held.length === 12)
      assert.deepEqual(await shed(), [])
      const waiting = Array.from({ length: 6 }, () => service.send({ url: '/held', scopes: null }))
      await until(() => held.length === 18)
      assert.equal((await asked.list()).statusCode, 503)
      assert.equal((await asked.write()).statusCode, 201)
      waiting.push(...Array.from({ length: 3 }, () => service.send({ url: '/held', scopes: null })))
      await until(() => held.length === 21)
      assert.deepEqual(await shed(), ['list', 'write', 'status', 'download'])
      assert.equal((await service.send({ url: '/held', scopes: null })).statusCode, 503)
      for (const goOn of held) goOn()
      await Promise.all([...parked, ...waiting])
      assert.deepEqual(await shed(), [])
    })

    it('sheds nothing after many failed requests, because they no longer count as in flight', async () => {
      for (let call = 0; call < 30; call++) {
        await service.send({ url: '/nothing' })
        await service.send({ url: '/products/99999' })
        await service.send({ url: '/products/1', headers: { 'if-match': '"9"' } })
      }
      assert.deepEqual(await shed(), [])
    })
  })

  describe('the token endpoint under overload', () => {
    it('sheds requests only at the highest level', async () => {
      const db = await engine.database()
      const timers = drivenTimers()
      const measure = () => ({ delayMs: 500, utilization: 1, cpuShare: 1 })
      const settings = { overload: { measure, random: Math.random }, later: timers.later }
      const { service } = await documentedApp(db, settings)
      const ask = async () => (await service.send({ method: 'POST', url: '/oauth/token', scopes: null })).statusCode
      // The overload policy ignores its first two seconds; from the second overloaded measurement on, the level rises.
      for (let look = 0; look < 13; look++) timers.pass(200)
      assert.equal(await ask(), 401)
      timers.pass(200)
      assert.equal(await ask(), 503)
      await service.app.close()
      await db.close()
    })
  })

  describe('a burst of token requests and logins', () => {
    it('429 with Retry-After after three requests from one address, for all its clients; other addresses are not limited (T-OA-08)', async () => {
      const db = await engine.database()
      const off = { general: null, anonymous: null, reports: null, webhooks: null, throttle: null }
      const rules = { ...off, token: { calls: 3, seconds: 60 }, quotas: { requests: null, reports: null } }
      const { service } = await documentedApp(db, { rules })
      const ask = (client: string, from: string, more: object = {}) =>
        service.send({
          ...{ method: 'POST', url: '/oauth/token', scopes: null },
          payload: `grant_type=client_credentials&client_id=${client}&client_secret=guess`,
          headers: { 'content-type': 'application/x-www-form-urlencoded', 'x-forwarded-for': from, ...more },
        })
      for (const [at, client] of ['one', 'two', 'three'].entries()) {
        const answer = await ask(client, '203.0.113.7')
        assert.equal(answer.statusCode, 401)
        assert.deepEqual(
          [answer.headers['x-ratelimit-remaining'], answer.json().error],
          [`${2 - at}`, 'invalid_client'],
        )
      }
      const refused = await ask('four', '203.0.113.7', { 'x-api-key': 'any', authorization: 'Bearer any' })
      assert.equal(refused.statusCode, 429)
      assert.equal(refused.headers['x-error-code'], 'RATE_LIMIT_EXCEEDED')
      assert.ok(Number(refused.headers['retry-after']) >= 1)
      assert.deepEqual(Object.keys(refused.json()), ['error'])
      const page = await service.send({
        ...{ method: 'POST', url: '/oauth/interaction/any/login', scopes: null, payload: 'email=a&password=b' },
        headers: { 'content-type': 'application/x-www-form-urlencoded', 'x-forwarded-for': '203.0.113.7' },
      })
      assert.equal(page.statusCode, 429)
      assert.match(String(page.headers['content-type']), /^text\/html/)
      assert.ok(Number(page.headers['retry-after']) >= 1)
      assert.equal((await ask('one', '203.0.113.8')).statusCode, 401)
      await service.app.close()
      await db.close()
    })
  })
})
