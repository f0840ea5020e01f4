import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import type { LightMyRequestResponse as Response } from 'fastify'
import type { ApiKeyIdentity } from '../../src/http/policies/authenticate.ts'
import type { LimitRules } from '../../src/rate-limits/limiter.ts'
import { quotaUses } from '../../src/rate-limits/stores/quotas.ts'
import type { Database } from '../../src/storage/database.ts'
import { type TestApp, testApp, token } from '../support/app.ts'
import { forEachEngine, onSqlite } from '../support/engines.ts'
import { rulesOf } from '../support/limits.ts'
import { drivenTimers } from '../support/timers.ts'

const json = { 'content-type': 'application/json' }
const keys: Record<string, ApiKeyIdentity> = {
  plain: { id: 'key_plain', rate: null, quota: null },
  small: { id: 'key_small', rate: '2/10', quota: 1 },
}
const minute = (calls: number) => ({ calls, seconds: 60 })
const rateHeaders = ({ headers }: Response) =>
  [headers['x-ratelimit-limit'], headers['x-ratelimit-remaining']].map(Number)
const quotaHeaders = ({ headers }: Response) => [headers['x-quota-limit'], headers['x-quota-remaining']].map(Number)

onSqlite((engine) => {
  let db: Database
  let timers: ReturnType<typeof drivenTimers>
  const open: TestApp[] = []
  before(async () => {
    db = await engine.database()
  })
  beforeEach(() => {
    timers = drivenTimers()
  })
  after(async () => {
    for (const { app } of open) await app.close()
    await db.close()
  })
  /** Starts an app with these limits. */
  const limited = async (rules: Partial<LimitRules>) => {
    const service = await testApp(db, { rules, later: timers.later, readApiKey: (text) => keys[text] ?? null })
    open.push(service)
    return service
  }
  let people = 0
  const newClient = () => `cli_${++people}`
  const as = (client: string, scopes = 'products:write reports:write reports:read webhooks:write') => ({
    token: token(scopes, client),
  })

  describe('the rate limit window', () => {
    it('reports the remaining calls for every status; once none remain, requests get a 429 until the window ends', async () => {
      const { send, clock } = await limited({ general: minute(7) })
      const me = as(newClient())
      const reset = String(Math.ceil((clock.now + 60_000) / 1_000))
      const created = await send({ method: 'POST', url: '/products', payload: { name: 'Lamp', price: 1 }, ...me })
      const tag = String(created.headers.etag)
      const url = String(created.headers.location)
      const requests = [
        { url, headers: { 'if-none-match': tag } },
        { url, method: 'HEAD' as const },
        { url: '/nothing' },
        { url, method: 'POST' as const },
        { url, method: 'PUT' as const, headers: { ...json, 'if-match': '"77"' }, payload: { name: 'x', price: 1 } },
        { url: '/users' },
      ]
      const statuses = [304, 200, 404, 405, 412, 403]
      const responses = [created]
      for (const [at, request] of requests.entries()) {
        const response = await send({ ...request, ...me })
        assert.equal(response.statusCode, statuses[at])
        responses.push(response)
      }
      responses.forEach((response, at) => {
        assert.deepEqual(rateHeaders(response), [7, 6 - at])
        assert.equal(response.headers['x-ratelimit-reset'], reset)
        assert.equal(response.headers.ratelimit, `"default";r=${6 - at};t=60`)
        assert.equal(response.headers['ratelimit-policy'], '"default";q=7;w=60')
        assert.equal(response.headers['retry-after'], undefined)
      })
      clock.now += 500
      const refused = await send({ url, ...me })
      assert.equal(refused.statusCode, 429)
      assert.deepEqual(refused.json(), { error: 'Too many requests: wait 60 seconds' })
      assert.equal(refused.headers['content-type'], 'application/json; charset=utf-8')
      assert.equal(refused.headers['x-error-code'], 'RATE_LIMIT_EXCEEDED')
      assert.equal(refused.headers['cache-control'], 'no-store')
      assert.equal(refused.headers['retry-after'], '60')
      assert.deepEqual(rateHeaders(refused), [7, 0])
      clock.now += 59_499
      assert.equal((await send({ url, ...me })).headers['retry-after'], '1')
      clock.now += 1
      assert.deepEqual(rateHeaders(await send({ url, ...me })), [7, 6])
    })

    it('admits exactly 100 of 500 concurrent requests at a limit of 100 (T-RACE-04)', async () => {
      const { send } = await limited({ general: minute(100) })
      const me = as(newClient())
      const responses = await Promise.all(Array.from({ length: 500 }, () => send({ url: '/products', ...me })))
      assert.equal(responses.filter(({ statusCode }) => statusCode === 200).length, 100)
      assert.equal(responses.filter(({ statusCode }) => statusCode === 429).length, 400)
    })

    it('rejects requests above the limit with 429, except for those that get 404 or 405', async () => {
      const { send } = await limited({ general: minute(1), anonymous: minute(1) })
      for (const who of [as(newClient()), { scopes: null }]) {
        await send({ url: '/products', ...who })
        assert.equal((await send({ url: '/nothing', ...who })).statusCode, 404)
        assert.equal((await send({ url: '/products', method: 'DELETE', ...who })).statusCode, 405)
        assert.equal((await send({ url: '/users', ...who })).statusCode, 429)
      }
    })

    it('does not count health checks, preflights or GET /api/usage', async () => {
      const { send } = await limited({ general: minute(2), anonymous: minute(2) })
      const me = as(newClient())
      for (const url of ['/livez', '/readyz', '/api/usage', '/v1/api/usage']) {
        const response = await send({ url, ...me })
        assert.equal(response.statusCode, 200)
        assert.equal(response.headers['x-ratelimit-limit'], undefined)
      }
      assert.deepEqual(rateHeaders(await send({ url: '/products', ...me })), [2, 1])
      const other = await testApp(db, { rules: { anonymous: minute(3) }, corsOrigins: ['https://app.example'] })
      open.push(other)
      const headers = { origin: 'https://app.example', 'access-control-request-method': 'GET' }
      for (let call = 0; call < 3; call++) {
        const response = await other.send({ method: 'OPTIONS', url: '/products', headers, scopes: null })
        assert.equal(response.statusCode, 204)
      }
      // Preflights do not count, even from unknown origins. Other OPTIONS requests do.
      const stranger = { ...headers, origin: 'https://other.example' }
      const refused = await other.send({ method: 'OPTIONS', url: '/products', headers: stranger, scopes: null })
      assert.deepEqual([refused.statusCode, refused.headers['x-ratelimit-limit']], [204, undefined])
      assert.deepEqual(rateHeaders(await other.send({ method: 'OPTIONS', url: '/products', scopes: null })), [3, 2])
      const page = await other.send({ url: '/products', headers: { origin: 'https://app.example' }, scopes: null })
      assert.deepEqual(rateHeaders(page), [3, 1])
      assert.match(String(page.headers['access-control-expose-headers']), /X-RateLimit-Remaining.*X-Quota-Remaining/)
    })
  })

  describe('requests that share one rate limit', () => {
    it('have tokens with the same client and subject, regardless of what else they send (T-LIM-02)', async () => {
      const { send } = await limited({ general: minute(10), anonymous: minute(10) })
      const client = newClient()
      const [one, other] = [token('', client, 'usr_1'), token('', client, 'usr_2')]
      assert.deepEqual(rateHeaders(await send({ url: '/products', token: one })), [10, 9])
      assert.deepEqual(rateHeaders(await send({ url: '/products', token: other })), [10, 9])
      const more = { 'x-api-key': 'unknown', 'x-forwarded-for': '203.0.113.9', 'user-agent': 'x', cookie: 'a=b' }
      const ways = ['/products?client_id=x', '/v1/products', '/v2/books']
      for (const [at, url] of ways.entries()) {
        assert.deepEqual(rateHeaders(await send({ url, token: one, headers: more })), [10, 8 - at])
      }
      // A second token for the same client and subject is counted together with the first.
      assert.deepEqual(
        rateHeaders(await send({ url: '/products', token: token('books:write', client, 'usr_1') })),
        [10, 5],
      )
    })

    it('have the same API key, even with tokens for different clients; the key can have its own rate and quota', async () => {
      const { send } = await limited({ general: minute(10), quotas: { requests: 50, reports: null } })
      const [one, other] = [as(newClient()), as(newClient())]
      const headers = { 'x-api-key': 'plain' }
      assert.deepEqual(rateHeaders(await send({ url: '/products', headers, ...one })), [10, 9])
      assert.deepEqual(rateHeaders(await send({ url: '/products', headers, ...other })), [10, 8])
      assert.deepEqual(rateHeaders(await send({ url: '/products', headers, scopes: null })), [10, 7])
      const small = { headers: { 'x-api-key': 'small' } }
      const first = await send({ url: '/products', ...small, ...one })
      assert.deepEqual([...rateHeaders(first), ...quotaHeaders(first)], [2, 1, 1, 0])
      assert.equal((await send({ url: '/products', ...small, ...one })).statusCode, 403)
      assert.equal((await send({ url: '/products', ...small, ...one })).statusCode, 429)
      const { rates, quotas, countedBy } = (await send({ url: '/api/usage', ...small, ...one })).json()
      assert.equal(countedBy, 'key')
      assert.deepEqual([rates[0].limit, rates[0].windowSeconds, quotas[0].limit], [2, 10, 1])
    })

    it('are limited at the new rate as soon as the rate of their API key changes', async () => {
      const { send } = await limited({ general: minute(10) })
      keys.changing = { id: 'key_changing', rate: '5/60', quota: null }
      const headers = { 'x-api-key': 'changing' }
      assert.deepEqual(rateHeaders(await send({ url: '/products', headers, scopes: null })), [5, 4])
      keys.changing = { id: 'key_changing', rate: '9/60', quota: null }
      assert.deepEqual(rateHeaders(await send({ url: '/products', headers, scopes: null })), [9, 8])
    })

    it('without a valid token, are those of one network: the last untrusted address, or its /64 for IPv6', async () => {
      const { send } = await limited({ general: minute(99), anonymous: minute(4) })
      const from = (address: string, more: object = {}) =>
        send({ url: '/products', scopes: null, headers: { 'x-forwarded-for': address }, ...more })
      assert.deepEqual(rateHeaders(await from('203.0.113.1')), [4, 3])
      const wrong = await from('6.6.6.6, 203.0.113.1', { token: 'invalid' })
      assert.equal(wrong.statusCode, 401)
      assert.deepEqual(rateHeaders(wrong), [4, 2])
      // A request with an invalid token counts for its network, even if its API key is valid.
      const guess = { token: 'invalid', headers: { 'x-forwarded-for': '203.0.113.1', 'x-api-key': 'plain' } }
      assert.deepEqual(rateHeaders(await from('', guess)), [4, 1])
      assert.deepEqual(rateHeaders(await from('203.0.113.2')), [4, 3])
      assert.deepEqual(rateHeaders(await from('2001:db8:1:2::1')), [4, 3])
      assert.deepEqual(rateHeaders(await from('2001:db8:1:2:ffff::9')), [4, 2])
      assert.deepEqual(rateHeaders(await from('2001:db8:1:3::1')), [4, 3])
      assert.deepEqual(rateHeaders(await from('::ffff:203.0.113.2')), [4, 2])
    })
  })

  describe('addresses appended by proxies', () => {
    it('are recognized with a port, in brackets and behind trusted proxies', async () => {
      const { send } = await limited({ anonymous: minute(9) })
      const from = async (address: string) =>
        rateHeaders(await send({ url: '/products', scopes: null, headers: { 'x-forwarded-for': address } }))[1]
      const same = ['203.0.113.9', '6.6.6.6, 203.0.113.9:4711', '6.6.6.6,203.0.113.9:80, 127.0.0.1:9']
      for (const [at, address] of same.entries()) assert.equal(await from(address), 8 - at, address)
      const network = ['2001:db8:7:7::1', '[2001:db8:7:7::2]', '6.6.6.6, [2001:db8:7:7::3]:443']
      for (const [at, address] of network.entries()) assert.equal(await from(address), 8 - at, address)
    })

    it('cannot be forged by the client: entries before an invalid address are ignored (T-LIM-02)', async () => {
      const forged = ['unknown', '', '_hidden', 'fe80::1%eth0', '203.0.113.9:x', '[203.0.113.9', '1.2.3.4:5:6']
      const { send } = await limited({ anonymous: minute(forged.length) })
      for (const [at, last] of forged.entries()) {
        const headers = { 'x-forwarded-for': `198.51.100.${at}, ${last}, 127.0.0.1` }
        const response = await send({ url: '/products', scopes: null, headers })
        assert.deepEqual([response.statusCode, rateHeaders(response)[1]], [200, forged.length - 1 - at], last)
      }
    })
  })

  describe('operation limits', () => {
    it('apply to POST /api/reports and its retries together, with headers that report the strictest limit', async () => {
      const { send } = await limited({ general: minute(10), reports: minute(2), quotas: { requests: 90, reports: 3 } })
      const me = as(newClient())
      const requestReport = () =>
        send({ method: 'POST', url: '/api/reports', payload: { reportType: 'books', format: 'csv' }, ...me })
      const first = await requestReport()
      assert.equal(first.statusCode, 202)
      assert.deepEqual([...rateHeaders(first), ...quotaHeaders(first)], [2, 1, 3, 2])
      assert.equal(first.headers['ratelimit-policy'], '"default";q=10;w=60, "reports";q=2;w=60')
      assert.equal(first.headers.ratelimit, '"reports";r=1;t=60')
      const { taskId } = first.json()
      await db.write((tx) => tx.updateTable('tasks').set({ status: 'failed' }).where('id', '=', taskId).execute())
      const retryReport = () => send({ method: 'POST', url: `/api/reports/${taskId}/retry`, ...me })
      const retried = await retryReport()
      assert.equal(retried.statusCode, 202)
      assert.deepEqual([...rateHeaders(retried), ...quotaHeaders(retried)], [2, 0, 3, 1])
      for (const refused of [await requestReport(), await retryReport()]) assert.equal(refused.statusCode, 429)
      const read = await send({ url: '/api/reports', ...me })
      assert.deepEqual([...rateHeaders(read), ...quotaHeaders(read)], [10, 5, 90, 87])
      const { quotas } = (await send({ url: '/api/usage', ...me })).json()
      assert.deepEqual(
        quotas.map(({ name, used }: { name: string; used: number }) => [name, used]),
        [
          ['requests', 3],
          ['reports', 2],
        ],
      )
    })

    it('include a monthly report quota: 403 once it is used up, without using the request quota', async () => {
      const { send } = await limited({ quotas: { requests: 90, reports: 1 } })
      const me = as(newClient())
      const requestReport = () =>
        send({ method: 'POST', url: '/api/reports', payload: { reportType: 'books', format: 'csv' }, ...me })
      assert.equal((await requestReport()).statusCode, 202)
      const refused = await requestReport()
      assert.equal(refused.statusCode, 403)
      assert.deepEqual(refused.json(), { error: 'The monthly quota of 1 reports is used up: it resets on 2026-04-01' })
      assert.deepEqual(quotaHeaders(await send({ url: '/products', ...me })), [90, 88])
    })

    it('apply to POST /api/webhooks', async () => {
      const { send } = await limited({ webhooks: minute(1) })
      const me = as(newClient())
      const payload = { event: 'report.completed', callbackUrl: 'http://127.0.0.1:9/x' }
      const responses = [1, 2].map(() => send({ method: 'POST', url: '/api/webhooks', payload, ...me }))
      assert.deepEqual(
        (await Promise.all(responses)).map(({ statusCode }) => statusCode),
        [201, 429],
      )
      assert.equal((await send({ url: '/products', ...me })).headers['x-ratelimit-limit'], undefined)
    })
  })

  describe('the request quota', () => {
    it('is checked after the rate and before the scope: 403 with a one-field body if it is used up; refused calls do not count (T-LIM-03)', async () => {
      const { send } = await limited({ general: minute(5), quotas: { requests: 2, reports: null } })
      const me = as(newClient(), '')
      const denied = await send({ url: '/users', ...me })
      assert.deepEqual(
        [denied.statusCode, denied.headers['x-error-code'], ...quotaHeaders(denied)],
        [403, 'ACCESS_DENIED', 2, 2],
      )
      const last = await send({ url: '/nothing', ...me })
      assert.equal(last.headers['x-quota-limit'], undefined)
      for (const left of [1, 0]) assert.deepEqual(quotaHeaders(await send({ url: '/products', ...me })), [2, left])
      const refused = await send({ url: '/users', ...me })
      assert.equal(refused.statusCode, 403)
      assert.deepEqual(refused.json(), { error: 'The monthly quota of 2 requests is used up: it resets on 2026-04-01' })
      assert.equal(refused.headers['x-error-code'], 'QUOTA_EXCEEDED')
      assert.equal(refused.headers['x-quota-reset'], String(Date.parse('2026-04-01T00:00:00Z') / 1_000))
      const both = await send({ url: '/users', ...me })
      assert.equal(both.statusCode, 429)
      const { quotas } = (await send({ url: '/api/usage', ...me })).json()
      assert.deepEqual([quotas[0].used, quotas[0].remaining], [2, 0])
    })

    it('resets each month, in UTC', async () => {
      const { send, clock } = await limited({ quotas: { requests: 1, reports: null } })
      clock.now = Date.parse('2026-03-31T23:59:59.999Z')
      const me = as(newClient())
      await send({ url: '/products', ...me })
      assert.equal((await send({ url: '/products', ...me })).statusCode, 403)
      clock.now += 1
      const next = await send({ url: '/products', ...me })
      assert.deepEqual([next.statusCode, ...quotaHeaders(next)], [200, 1, 0])
      assert.equal(next.headers['x-quota-reset'], String(Date.parse('2026-05-01T00:00:00Z') / 1_000))
      // The usage in the previous month is still in memory.
      clock.now -= 1
      assert.equal((await send({ url: '/products', ...me })).statusCode, 403)
    })

    it('does not apply to requests without a token or API key, or to requests with only an API key that get 401', async () => {
      const { send } = await limited({ quotas: { requests: 5, reports: null } })
      assert.equal((await send({ url: '/products', scopes: null })).headers['x-quota-limit'], undefined)
      const refused = await send({ url: '/users', scopes: null, headers: { 'x-api-key': 'plain' } })
      assert.deepEqual([refused.statusCode, refused.headers['x-quota-limit']], [401, undefined])
    })
  })
})

forEachEngine((engine) => {
  describe('quota usage', () => {
    let db: Database
    before(async () => {
      db = await engine.database()
    })
    after(() => db.close())
    const rules = { quotas: { requests: 10, reports: null } }
    const me = { token: token('', 'cli_kept') }
    const saved = () => quotaUses(db).look('client:cli_kept,cli_kept requests', '2026-03')

    it('is saved within a second and on shutdown, and loaded at the next start', async () => {
      const timers = drivenTimers()
      const first = await testApp(db, { rules, later: timers.later })
      for (let call = 0; call < 3; call++) await first.send({ url: '/products', ...me })
      assert.equal(await saved(), 0)
      timers.pass(1_000)
      while ((await saved()) !== 3) await new Promise(setImmediate)
      await first.send({ url: '/products', ...me })
      await first.app.close()
      assert.equal(await saved(), 4)
      const second = await testApp(db, { rules, later: timers.later })
      assert.deepEqual(quotaHeaders(await second.send({ url: '/products', ...me })), [10, 5])
      await second.app.close()
    })

    it('stays in memory while it cannot be saved', async () => {
      const timers = drivenTimers()
      const uses = quotaUses(db)
      let fails = true
      const record: typeof uses = { ...uses, add: (all) => (fails ? Promise.reject(new Error('full')) : uses.add(all)) }
      const limits = { rules: rulesOf(rules), counters: { record, shared: null }, monotonic: () => 0 }
      const service = await testApp(db, { limits, later: timers.later })
      const client = { token: token('', 'cli_unsaved') }
      await service.send({ url: '/products', ...client })
      timers.pass(1_000)
      while (service.faults.length === 0) await new Promise(setImmediate)
      assert.deepEqual(quotaHeaders(await service.send({ url: '/products', ...client })), [10, 8])
      fails = false
      await service.app.close()
      assert.equal(await uses.look('client:cli_unsaved,cli_unsaved requests', '2026-03'), 2)
    })

    it('is dropped, and reported as an error, if it cannot be saved on shutdown', async () => {
      const timers = drivenTimers()
      const record = { ...quotaUses(db), add: () => Promise.reject(new Error('full')) }
      const limits = { rules: rulesOf(rules), counters: { record, shared: null }, monotonic: () => 0 }
      const service = await testApp(db, { limits, later: timers.later })
      await service.send({ url: '/products', token: token('', 'cli_lost') })
      await service.app.close()
      assert.deepEqual([service.faults.map(String), timers.pending()], [['Error: full'], []])
    })

    it('is counted exactly for concurrent calls', async () => {
      const [one, other] = [quotaUses(db), quotaUses(db)]
      const takes = Array.from({ length: 60 }, (_, at) => (at % 2 ? one : other).take('exact', '2026-03', 25))
      const granted = (await Promise.all(takes)).filter(({ isGranted }) => isGranted)
      assert.deepEqual(
        granted.map(({ used }) => used).sort((a, b) => a - b),
        Array.from({ length: 25 }, (_, at) => at + 1),
      )
      await one.back('exact', '2026-03')
      await one.raise([['exact', '2026-03', 20]])
      assert.equal(await one.look('exact', '2026-03'), 24)
      await one.raise([['exact', '2026-03', 30]])
      assert.deepEqual(await other.take('exact', '2026-03', 25), { used: 30, isGranted: false })
    })
  })
})
