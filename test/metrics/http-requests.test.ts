import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Database } from '../../src/storage/database.ts'
import { type TestApp, testApp, token } from '../support/app.ts'
import { onSqlite } from '../support/engines.ts'
import { scraped } from '../support/metrics.ts'

onSqlite((engine) => {
  let db: Database
  let service: TestApp
  before(async () => {
    db = await engine.database()
    service = await testApp(db)
  })
  after(async () => {
    await service.app.close()
    await db.close()
  })
  const admin = token('admin', 'cli_admin')
  const scrape = async () => scraped((await service.send({ url: '/metrics', token: admin })).body)
  const count = async (labels: Record<string, string>) =>
    (await scrape()).value('plinth_http_requests_total', labels) ?? 0

  describe('GET /metrics', () => {
    it('200 in the Prometheus text format, with no-store, for a token with the admin scope', async () => {
      const response = await service.send({ url: '/metrics', token: admin })
      assert.equal(response.statusCode, 200)
      assert.equal(response.headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8')
      assert.equal(response.headers['cache-control'], 'no-store')
      const { value } = scraped(response.body)
      assert.equal(value('plinth_build_info', { version: 'test', node: process.version }), 1)
    })

    it('401 without a token, and 403 with every scope but admin (T-OPS-04)', async () => {
      assert.equal((await service.send({ url: '/metrics', scopes: null })).statusCode, 401)
      assert.equal((await service.send({ url: '/metrics', token: 'expired' })).statusCode, 401)
      assert.equal((await service.send({ url: '/metrics' })).statusCode, 403)
    })

    it('200 for the Accept header of Prometheus', async () => {
      const accept =
        'application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,' +
        'text/plain;version=0.0.4;q=0.3,*/*;q=0.1'
      assert.equal((await service.send({ url: '/metrics', token: admin, headers: { accept } })).statusCode, 200)
    })

    it('404 under a version prefix, 405 for POST', async () => {
      assert.equal((await service.send({ url: '/v1/metrics', token: admin })).statusCode, 404)
      assert.equal((await service.send({ url: '/metrics', method: 'POST', token: admin })).statusCode, 405)
    })
  })

  describe('plinth_http_requests_total', () => {
    it('counts by route pattern, method, status and version', async () => {
      for (const url of ['/products/1', '/products/2', '/v1/products/3', '/v2/products/1']) await service.send({ url })
      await service.send({ url: '/products', method: 'POST', payload: { name: 'Lamp', price: 9 } })
      const route = '/products/:id'
      assert.equal(await count({ route, method: 'GET', status: '404', version: 'v1' }), 3)
      assert.equal(await count({ route, method: 'GET', status: '404', version: 'v2' }), 1)
      assert.equal(await count({ route: '/products', method: 'POST', status: '201', version: 'v1' }), 1)
    })

    it('counts requests to unversioned routes with the version label `none`', async () => {
      await service.send({ url: '/livez' })
      assert.equal(await count({ route: '/livez', method: 'GET', status: '200', version: 'none' }), 1)
    })

    it('equals the count in the duration histogram, which has one series per status class', async () => {
      await service.send({ url: '/products/1' })
      const { all, value } = await scrape()
      const labels = { route: '/products/:id', method: 'GET', version: 'v1', status_class: '4xx' }
      const buckets = all('plinth_http_request_duration_seconds_bucket', labels).map((one) => one.value)
      assert.equal(value('plinth_http_request_duration_seconds_count', labels), buckets.at(-1))
      assert.deepEqual(
        buckets,
        buckets.toSorted((one, other) => one - other),
      )
      assert.ok((value('plinth_http_request_duration_seconds_sum', labels) as number) > 0)
      const { status_class: _, ...counted } = labels
      assert.equal(buckets.at(-1), value('plinth_http_requests_total', { ...counted, status: '404' }))
    })

    it('has a bounded number of series after requests for 1,000 paths, unusual methods and 1,000 clients (T-RES-08)', async () => {
      await service.send({ url: '/nothing' })
      const before = await scrape()
      for (let at = 0; at < 1_000; at++) {
        const method = ['GET', 'PROPFIND', 'TRACE', 'LINK'][at % 4] as 'GET'
        await service.send({ url: `/nothing/${at}"\\\n`, method, token: token('', `client"${at}\\`) })
      }
      const later = await scrape()
      const clients = later.all('plinth_client_requests_top')
      assert.equal(clients.length, 10)
      const added = later.samples.length - before.samples.length
      assert.ok(added < 100, `${added} samples were added`)
      const labels = new Set(later.all('plinth_http_requests_total').map((one) => one.labels.route))
      assert.ok(![...labels].some((route) => route?.includes('nothing')))
      assert.ok(labels.has('unrouted'))
      const methods = new Set(later.all('plinth_http_requests_total').map((one) => one.labels.method))
      assert.ok([...methods].every((method) => /^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|other)$/.test(method ?? '')))
    })
  })

  describe('plinth_client_requests_top', () => {
    it('lists the ten busiest clients of the last minute, and drops them once they are idle', async () => {
      service.clock.now += 200_000
      for (let at = 0; at < 12; at++) {
        for (let time = 0; time <= at; time++) await service.send({ url: '/livez', token: token('', `busy${at}`) })
      }
      const top = (await scrape()).all('plinth_client_requests_top')
      assert.deepEqual(
        top.map(({ labels, value }) => [labels.client, value]),
        Array.from({ length: 10 }, (_, at) => [`busy${11 - at}`, 12 - at]),
      )
      service.clock.now += 90_000
      const half = (await scrape()).value('plinth_client_requests_top', { client: 'busy11' })
      assert.ok(half === 12 || half === 6, String(half))
      service.clock.now += 120_000
      assert.equal((await scrape()).value('plinth_client_requests_top', { client: 'busy11' }), undefined)
    })
  })
})
