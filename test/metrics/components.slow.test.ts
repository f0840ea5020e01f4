import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { request } from 'undici'
import { freePort } from '../../src/serving/listeners.ts'
import { forEachEngine, type Place } from '../support/engines.ts'
import { type Scraped, scraped } from '../support/metrics.ts'
import { eventually, type RealService, realService } from '../support/service.ts'

forEachEngine((engine) => {
  describe('GET /metrics after traffic', () => {
    let place: Place
    let service: RealService
    let receiver: Server
    let base: string
    let metrics: Scraped
    const scrape = async () => scraped(await (await request(`${base}/metrics`)).body.text())

    before(async () => {
      place = await engine.migratedPlace()
      const port = await freePort()
      base = `http://127.0.0.1:${port}`
      receiver = createServer((incoming, response) => {
        incoming.resume()
        response.writeHead(incoming.url === '/gone' ? 500 : 200).end()
      }).listen(0, '127.0.0.1')
      await once(receiver, 'listening')
      service = await realService({
        PLINTH_METRICS_PORT: String(port),
        PLINTH_WEBHOOK_ALLOW_HTTP: 'true',
        PLINTH_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
        PLINTH_RATE_LIMIT_REPORTS: '2/3600',
        ...(engine.name === 'postgres' && { DATABASE_URL: place.url }),
      })
      await service.start()
      await makeTraffic()
    })
    after(async () => {
      await service.remove()
      receiver.close()
      await place.remove()
    })

    /** Causes each kind of event that is counted, and waits until the metrics show its outcome. */
    async function makeTraffic() {
      const hook = (path: string) => `http://127.0.0.1:${(receiver.address() as AddressInfo).port}${path}`
      for (const path of ['/ok', '/gone']) {
        const body = { event: 'product.created', callbackUrl: hook(path) }
        assert.equal((await service.call('POST', '/api/webhooks', { body })).status, 201)
      }
      assert.equal((await service.call('POST', '/products', { body: { name: 'Lamp', price: 9 } })).status, 201)
      const report = { reportType: 'products', format: 'csv' }
      const asked = await Promise.all(
        [1, 2, 3].map(() => service.call('POST', '/api/reports', { body: report }).then(({ status }) => status)),
      )
      assert.deepEqual(asked.toSorted(), [202, 202, 429])
      const headers = { authorization: 'Basic eDp5', 'content-type': 'application/x-www-form-urlencoded' }
      assert.equal((await service.call('POST', '/oauth/token', { headers })).status, 401)
      metrics = await eventually('both calls and both reports are counted', async () => {
        const now = await scrape()
        const calls = (outcome: string) => now.value('plinth_webhook_calls_total', { outcome }) ?? 0
        const reports = now.value('plinth_report_rows_total', { format: 'csv' }) ?? 0
        const waiting = now.value('plinth_webhook_deliveries_waiting')
        // The queue counts a job only after the job has counted its own results, such as a report's rows.
        const done = (kind: string) => now.value('plinth_queue_jobs_total', { kind, outcome: 'done' }) ?? 0
        const areJobsDone = done('report.generate') === 2 && done('event.fan-out') >= 1
        return calls('delivered') >= 1 && calls('http_5xx') >= 1 && reports === 2 && waiting === 1 && areJobsDone && now
      })
    }
    const value = (name: string, labels?: Record<string, string>) => metrics.value(name, labels)

    it('includes at least one sample of every metric that applies to this database engine', () => {
      // Backup metrics require a backup schedule, and job attempt metrics require a service that defines jobs.
      const others =
        engine.name === 'sqlite'
          ? /^plinth_(database_connection|backup|job_attempts)/
          : /^plinth_(database_wal|backup|job_attempts)/
      const empty = [...metrics.metrics.keys()].filter(
        (name) =>
          !others.test(name) &&
          !metrics.samples.some((one) => one.name.replace(/_(bucket|sum|count)$/, '') === name || one.name === name),
      )
      assert.deepEqual(empty, [])
    })

    it('counts jobs, reports and their bytes', () => {
      const done = (kind: string) => value('plinth_queue_jobs_total', { kind, outcome: 'done' }) ?? 0
      assert.equal(done('report.generate'), 2)
      assert.ok(done('event.fan-out') >= 1)
      assert.equal(value('plinth_report_duration_seconds_count', { format: 'csv', outcome: 'completed' }), 2)
      assert.ok((value('plinth_report_bytes_total', { format: 'csv' }) ?? 0) > 0)
    })

    it('includes gauges for webhooks, the queue, the database and the result storage', () => {
      assert.equal(value('plinth_database_up'), 1)
      assert.equal(value('plinth_webhooks', { state: 'paused' }), 0)
      const states = metrics.all('plinth_webhooks').map((one) => one.value)
      assert.equal(
        states.reduce((sum, one) => sum + one),
        2,
      )
      assert.equal(value('plinth_queue_jobs_waiting', { kind: 'report.generate' }), 0)
      assert.ok((value('plinth_database_commit_units_count') ?? 0) > 5)
      if (engine.name === 'sqlite') assert.ok((value('plinth_database_wal_bytes') ?? 0) > 0)
      else {
        // The threads share ten connections; each share is rounded up.
        const max = value('plinth_database_connections_max', { pool: 'main' }) ?? 0
        assert.ok(max >= 9 && max <= 12, String(max))
      }
      const [free = 0, capacity = 0] = ['free', 'capacity'].map((what) => value(`plinth_results_${what}_bytes`))
      assert.ok(free > 0 && free <= capacity)
    })

    it('counts refused and issued tokens, and requests refused by a limit', () => {
      assert.ok((value('plinth_oauth_tokens_issued_total', { grant: 'client_credentials' }) ?? 0) >= 1)
      assert.equal(value('plinth_oauth_tokens_refused_total', { error: 'invalid_client' }), 1)
      assert.equal(value('plinth_limits_refused_total', { limit: 'reports' }), 1)
    })

    it('includes process metrics: memory, CPU, event loop, garbage collection and threads', () => {
      for (const name of ['process_resident_memory_bytes', 'process_cpu_seconds_total', 'plinth_process_threads']) {
        assert.ok((value(name) ?? 0) > 0, name)
      }
      assert.ok((value('plinth_event_loop_active_seconds_total', { role: 'serve' }) ?? 0) > 0)
      assert.ok(metrics.all('nodejs_gc_duration_seconds_count').length > 0)
    })
  })
})
