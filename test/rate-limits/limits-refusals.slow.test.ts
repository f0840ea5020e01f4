import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { LightMyRequestResponse as Response } from 'fastify'
import type { ApiKeyIdentity } from '../../src/http/policies/authenticate.ts'
import type { LimitRules } from '../../src/rate-limits/limiter.ts'
import { quotaUses } from '../../src/rate-limits/stores/quotas.ts'
import { maxWaitingReports } from '../../src/reports/generate/fair-queue.ts'
import type { Database } from '../../src/storage/database.ts'
import { type TestApp, testApp, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { rulesOf } from '../support/limits.ts'
import { eventually } from '../support/service.ts'
import { ending, lifecyclesOf } from '../support/version-lifecycles.ts'

const minute = (calls: number) => ({ calls, seconds: 60 })
const left = ({ headers }: Response) => Number(headers['x-ratelimit-remaining'])
const quotaLeft = ({ headers }: Response) => Number(headers['x-quota-remaining'])
const report = { reportType: 'books', format: 'csv' }

forEachEngine((engine) => {
  let db: Database
  const open: TestApp[] = []
  before(async () => {
    db = await engine.database()
  })
  after(async () => {
    for (const { app } of open) await app.close()
    await db.close()
  })
  const keys: Record<string, ApiKeyIdentity> = {}
  const limited = async (rules: Partial<LimitRules>, more: Parameters<typeof testApp>[1] = {}) => {
    const service = await testApp(db, { rules, readApiKey: (text) => keys[text] ?? null, ...more })
    open.push(service)
    return service
  }
  /** Starts the app with stores that several processes can share. */
  const shared = async (rules: Partial<LimitRules>) => {
    const quotas = quotaUses(db)
    const window = { add: async () => ({ used: 1, endsAtMs: 0 }), look: async () => null }
    const counters = { record: quotas, shared: { windows: window, strictWindows: window, quotas } }
    return limited({}, { limits: { rules: rulesOf(rules), counters, monotonic: Date.now } })
  }
  let people = 0
  const newClient = () => ({ token: token('reports:write reports:read users:read', `cli_refused_${++people}`) })

  for (const [where, open] of [
    ['counted in one process', limited],
    ['counted in shared stores', shared],
  ] as const) {
    describe(`quotas for refused requests (T-LIM-03), ${where}`, () => {
      let service: TestApp
      before(async () => {
        service = await open({ quotas: { requests: 1_000, reports: 500 } })
      })
      const requestReport = (who: object, payload: object = report, headers: Record<string, string> = {}) =>
        service.send({ method: 'POST', url: '/api/reports', payload, headers, ...who })
      const used = async (who: object): Promise<number[]> => {
        const { quotas } = (await service.send({ url: '/api/usage', ...who })).json()
        return quotas.map(({ used }: { used: number }) => used)
      }
      /** Waits until this usage is reported, because shared stores are updated after the response. */
      const becomes = (who: object, uses: number[]) =>
        eventually(`${uses} are used`, async () => {
          service.clock.now += 1_000
          return (await used(who)).join() === uses.join()
        })

      it('count a 202 as a request and a report, and a 400, 404, 415 or 422 only as a request', async () => {
        const me = newClient()
        const created = await requestReport(me)
        assert.deepEqual([created.statusCode, quotaLeft(created)], [202, 499])
        const refusals = [
          [400, {}, {}],
          [422, { ...report, format: 'doc' }, {}],
          [415, 'x', { 'content-type': 'text/plain' }],
        ] as const
        for (const [index, [status, payload, headers]] of refusals.entries()) {
          const response = await requestReport(me, payload as object, headers)
          assert.deepEqual([response.statusCode, quotaLeft(response)], [status, 499])
          await becomes(me, [index + 2, 1])
        }
        const retry = await service.send({ method: 'POST', url: '/api/reports/tsk_none/retry', ...me })
        assert.deepEqual([retry.statusCode, quotaLeft(retry)], [404, 499])
        await becomes(me, [5, 1])
      })

      it('count a 202 replayed for an Idempotency-Key as a request, but not as a second report', async () => {
        const me = newClient()
        const headers = { 'idempotency-key': 'k' }
        for (const [index, replayed] of [undefined, 'true', 'true'].entries()) {
          const response = await requestReport(me, report, headers)
          assert.deepEqual([response.statusCode, response.headers['idempotent-replayed']], [202, replayed])
          assert.equal(quotaLeft(response), 499)
          await becomes(me, [index + 1, 1])
        }
      })

      it('count neither a 429 for a full report queue nor a 403 for a forbidden report type', async () => {
        const me = newClient()
        for (let task = 0; task < maxWaitingReports; task++) assert.equal((await requestReport(me)).statusCode, 202)
        const refused = await Promise.all(Array.from({ length: 20 }, () => requestReport(me)))
        assert.deepEqual([...new Set(refused.map(({ statusCode }) => statusCode))], [429])
        await becomes(me, [maxWaitingReports, maxWaitingReports])
        const other = { token: token('reports:write reports:read', `cli_refused_${++people}`) }
        assert.equal((await requestReport(other, { reportType: 'users', format: 'csv' })).statusCode, 403)
        await becomes(other, [0, 0])
      })
    })
  }

  describe('refused requests', () => {
    it('429 from the throttle, with headers that report the refunded quota', async () => {
      const { send } = await limited({
        throttle: { calls: 1, seconds: 60, burst: 3 },
        quotas: { requests: 100, reports: null },
      })
      const me = newClient()
      const statuses = [200, 200, 200, 429, 429]
      for (const [at, status] of statuses.entries()) {
        const response = await send({ url: '/products', ...me })
        assert.deepEqual([response.statusCode, quotaLeft(response)], [status, Math.max(100 - at - 1, 97)])
      }
    })

    it('429 for OPTIONS above the rate limit', async () => {
      const { send } = await limited({ anonymous: minute(1) })
      const options = () => send({ method: 'OPTIONS', url: '/products', scopes: null })
      assert.deepEqual([(await options()).statusCode, (await options()).statusCode], [204, 429])
    })

    it('401 for an API key without the required token, counted against the network instead of the key', async () => {
      keys.alone = { id: 'key_alone', rate: '1/60', quota: null }
      const { send } = await limited({ anonymous: minute(9) })
      const headers = { 'x-api-key': 'alone', 'x-forwarded-for': '203.0.113.77' }
      const requestReport = (url: string) => send({ url, headers, scopes: null })
      for (const rest of [8, 7, 6]) {
        const response = await requestReport('/users')
        assert.deepEqual([response.statusCode, left(response)], [401, rest])
      }
      assert.deepEqual(
        [(await requestReport('/products')).statusCode, (await requestReport('/products')).statusCode],
        [200, 429],
      )
    })

    it('410 for a retired version even above the rate limit, with rate-limit headers that count the request', async () => {
      const { send } = await limited({ anonymous: minute(2) }, { lifecycles: lifecyclesOf(ending) })
      for (const rest of [1, 0, 0]) {
        const response = await send({ url: '/v0/products', scopes: null })
        assert.deepEqual([response.statusCode, left(response)], [410, rest])
      }
      assert.equal((await send({ url: '/products', scopes: null })).statusCode, 429)
    })
  })

  describe('a changed quota for an API key', () => {
    it('counts the calls made before the change: 403 if they have used it up, 200 otherwise', async () => {
      const { send } = await limited({ quotas: { requests: 50, reports: 9 } })
      const use = async (quota: number | null) => {
        keys.grown = { id: 'key_grown', rate: null, quota }
        return send({ url: '/products', headers: { 'x-api-key': 'grown' }, scopes: null })
      }
      for (const [quota, status, rest] of [
        [20, 200, 19],
        [20, 200, 18],
        [25, 200, 22],
        [null, 200, 46],
        [5, 200, 0],
        [5, 403, 0],
        [6, 200, 0],
        [3, 403, 0],
      ] as const) {
        const response = await use(quota)
        assert.deepEqual([response.statusCode, quotaLeft(response)], [status, rest], String(quota))
      }
    })
  })
})
