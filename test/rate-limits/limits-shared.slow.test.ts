import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { LightMyRequestResponse as Response } from 'fastify'
import { quotaUses } from '../../src/rate-limits/stores/quotas.ts'
import { windowsIn } from '../../src/rate-limits/stores/windows.ts'
import type { Database } from '../../src/storage/database.ts'
import { type TestApp, testApp, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { rulesOf } from '../support/limits.ts'
import { eventually } from '../support/service.ts'

const full = () => Promise.reject(Object.assign(new Error('no room'), { code: '53100', errcode: 13 }))
const remaining = ({ headers }: Response) => Number(headers['x-ratelimit-remaining'])

forEachEngine((engine) => {
  describe('shared stores with temporary failures', () => {
    let db: Database
    let service: TestApp
    const looks: string[] = []
    /** The store operations that currently fail. */
    const broken = { add: false, takeReports: false, back: false, look: false }
    before(async () => {
      db = await engine.database()
      const uses = quotaUses(db)
      const quotas: typeof uses = {
        ...uses,
        take: (key, ...about) => (broken.takeReports && key.endsWith('reports') ? full() : uses.take(key, ...about)),
        look: (key, period) => {
          looks.push(key)
          return broken.look ? full() : uses.look(key, period)
        },
        back: (...about) => (broken.back ? full() : uses.back(...about)),
      }
      const clock = { now: Date.parse('2026-03-01T12:00:00Z') }
      const real = await windowsIn(db, () => clock.now)
      const windows: typeof real = { ...real, add: (...about) => (broken.add ? full() : real.add(...about)) }
      const rules = rulesOf({ general: { calls: 10, seconds: 60 }, quotas: { requests: 8, reports: 2 } })
      const shared = { windows, strictWindows: windows, quotas }
      const limits = { rules, counters: { record: uses, shared }, monotonic: () => clock.now }
      service = await testApp(db, { prefixes: [''], limits, now: () => clock.now })
      service.clock = clock
    })
    after(async () => {
      await service.app.close()
      await db.close()
    })
    const report = (client: string) => {
      const payload = { reportType: 'books', format: 'csv' }
      return service.send({ method: 'POST', url: '/api/reports', payload, token: token('reports:write', client) })
    }
    const used = (client: string, of = 'requests') => quotaUses(db).look(`client:${client},${client} ${of}`, '2026-03')
    const takeFaults = () => service.faults.splice(0).map(String)

    it('503 if the report quota cannot be charged, with a refund to the request quota', async () => {
      broken.takeReports = true
      const response = await report('cli_asked')
      broken.takeReports = false
      assert.equal(response.statusCode, 503)
      assert.deepEqual([await used('cli_asked'), await used('cli_asked', 'reports')], [0, 0])
      assert.deepEqual(takeFaults(), ['Error: no room'])
    })

    it('403 above the report quota, even if the refund to the request quota fails', async () => {
      assert.deepEqual([(await report('cli_back')).statusCode, (await report('cli_back')).statusCode], [202, 202])
      broken.back = true
      const response = await report('cli_back')
      broken.back = false
      assert.equal(response.statusCode, 403)
      assert.match(response.body, /^\{"error":"The monthly quota of 2 reports/)
      assert.deepEqual(takeFaults(), ['Error: no room'])
      assert.equal(await used('cli_back'), 3)
    })

    it('403 for a missing scope, without using the request or report quota', async () => {
      const payload = { reportType: 'books', format: 'csv' }
      const me = { token: token('reports:read', 'cli_denied') }
      const response = await service.send({ method: 'POST', url: '/api/reports', payload, ...me })
      const { headers } = response
      assert.deepEqual(
        [response.statusCode, headers['x-error-code'], headers['x-quota-remaining']],
        [403, 'ACCESS_DENIED', '2'],
      )
      await eventually('both are given back', async () => {
        return (await used('cli_denied')) === 0 && (await used('cli_denied', 'reports')) === 0
      })
    })

    it('200 while the store is down: this process continues counting from the last shared count', async () => {
      const mine = () => service.send({ url: '/api/reports', token: token('reports:read', 'cli_window') })
      assert.deepEqual([remaining(await mine()), remaining(await mine())], [9, 8])
      service.clock.now += 20_000
      broken.add = true
      const alone = await Promise.all([mine(), mine(), mine()])
      assert.deepEqual(alone.map(remaining), [7, 6, 5])
      assert.match(String(alone[0]?.headers.ratelimit), /;t=40$/)
      service.clock.now += 40_000
      assert.equal(remaining(await mine()), 9)
      broken.add = false
    })

    it('GET /api/usage: 200, but the stores are queried at most once a second per account', async () => {
      const usage = (client: string) => service.send({ url: '/api/usage', token: token('', client) })
      const usedOf = (response: Response) => response.json().quotas[0].used
      const call = () => service.send({ url: '/products', token: token('', 'cli_curious') })
      await call()
      const first = await Promise.all(Array.from({ length: 50 }, () => usage('cli_curious')))
      assert.deepEqual([...new Set(first.map(usedOf))], [1])
      await call()
      service.clock.now += 999
      assert.equal(usedOf(await usage('cli_curious')), 1)
      assert.equal(looks.length, 2)
      assert.equal(usedOf(await usage('cli_other')), 0)
      service.clock.now += 1
      assert.equal(usedOf(await usage('cli_curious')), 2)
    })

    it('503 for concurrent requests to GET /api/usage if the store fails, 200 for the next request', async () => {
      const usage = () => service.send({ url: '/api/usage', token: token('', 'cli_unlucky') })
      broken.look = true
      const failed = await Promise.all([usage(), usage()])
      broken.look = false
      assert.deepEqual(
        [...failed, await usage()].map(({ statusCode }) => statusCode),
        [503, 503, 200],
      )
      assert.equal(takeFaults().length, 2)
    })
  })
})
