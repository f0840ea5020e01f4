import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { LimitRules } from '../../src/rate-limits/limiter.ts'
import { quotaUses } from '../../src/rate-limits/stores/quotas.ts'
import { windowsIn } from '../../src/rate-limits/stores/windows.ts'
import type { Database } from '../../src/storage/database.ts'
import { type TestApp, testApp, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { rulesOf } from '../support/limits.ts'
import { eventually } from '../support/service.ts'

const now = () => Date.parse('2026-03-01T12:00:00Z')

forEachEngine((engine) => {
  for (const place of ['in this process', 'in shared stores'] as const) {
    describe(`the items of a batch, counted ${place}`, () => {
      let db: Database
      let byRate: TestApp
      let byQuota: TestApp
      const limited: string[] = []
      before(async () => {
        db = await engine.database()
        const windows = await windowsIn(db, now)
        const appWith = (rules: Partial<LimitRules>) => {
          const record = quotaUses(db)
          const shared = place === 'in this process' ? null : { windows, strictWindows: windows, quotas: record }
          const onLimited = (limit: string) => void limited.push(limit)
          const metrics = { read: async () => '', onResponse: () => {}, onDelayed: () => {}, onLimited }
          const limits = { rules: rulesOf(rules), counters: { record, shared }, monotonic: now }
          return testApp(db, { prefixes: [''], limits, now, metrics })
        }
        byRate = await appWith({ general: { calls: 6, seconds: 60 }, quotas: { requests: 100, reports: 1 } })
        byQuota = await appWith({ general: { calls: 100, seconds: 60 }, quotas: { requests: 8, reports: 1 } })
      })
      after(async () => {
        for (const { app } of [byRate, byQuota]) await app.close()
        await db.close()
        assert.deepEqual([...byRate.faults, ...byQuota.faults], [])
      })
      const send = ({ send }: TestApp, client: string, items: number, headers: Record<string, string> = {}) => {
        const item = { method: 'POST', collection: 'products', body: { name: 'Lamp', price: 1 } }
        const payload = { items: Array.from({ length: items }, () => item) }
        return send({ method: 'POST', url: '/api/batch', payload, headers, token: token('products:write', client) })
      }
      /** Sends a request and returns the rate and quota that remain after it. */
      const left = async ({ send }: TestApp, client: string) => {
        const { headers } = await send({ url: '/products', token: token('products:write', client) })
        return [headers['x-ratelimit-remaining'], headers['x-quota-remaining']].map(Number)
      }
      /**
       * Waits until a client has used this much of its request quota, because shared stores receive refunds with a
       * delay.
       */
      const hasUsed = async ({ send }: TestApp, client: string, requests: number) => {
        const inProcess = async () =>
          (await send({ url: '/api/usage', token: token('products:write', client) })).json().quotas[0].used
        const stored = () => quotaUses(db).look(`client:${client},${client} requests`, '2026-03')
        const used = place === 'in this process' ? inProcess : stored
        await eventually(`the quota has ${requests} uses`, async () => (await used()) === requests)
      }
      const products = async () => (await db.read.selectFrom('products').select('id').execute()).length

      it('each count as a request toward the rate limit and the quota', async () => {
        const response = await send(byRate, 'cli_items', 3)
        assert.equal(response.statusCode, 200, response.body)
        assert.deepEqual(await left(byRate, 'cli_items'), [2, 96])
      })

      it('429 if the rate does not allow all of them; the batch uses no quota and writes nothing (T-LIM-10)', async () => {
        const before = await products()
        limited.length = 0
        const response = await send(byRate, 'cli_many', 7)
        assert.equal(response.statusCode, 429)
        assert.ok(Number(response.headers['retry-after']) > 0)
        assert.deepEqual([await products(), limited], [before, ['default']])
        await hasUsed(byRate, 'cli_many', 0)
      })

      it('403 if the quota does not allow all of them; the batch uses no quota and writes nothing', async () => {
        assert.equal((await send(byQuota, 'cli_quota', 6)).statusCode, 200)
        const before = await products()
        limited.length = 0
        const response = await send(byQuota, 'cli_quota', 3)
        assert.deepEqual([response.statusCode, response.headers['x-error-code']], [403, 'QUOTA_EXCEEDED'])
        assert.deepEqual([await products(), limited], [before, ['quota_requests']])
        await hasUsed(byQuota, 'cli_quota', 6)
        assert.equal((await send(byQuota, 'cli_quota', 2)).statusCode, 200)
      })

      it('are not counted again in a replay under the Idempotency-Key', async () => {
        const headers = { 'idempotency-key': 'batch' }
        assert.equal((await send(byRate, 'cli_replay', 3, headers)).statusCode, 200)
        assert.equal((await send(byRate, 'cli_replay', 3, headers)).headers['idempotent-replayed'], 'true')
        assert.deepEqual(await left(byRate, 'cli_replay'), [1, 95])
      })
    })
  }
})
