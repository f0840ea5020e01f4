import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { request } from 'undici'
import { freePort } from '../../src/serving/listeners.ts'
import { scraped } from '../support/metrics.ts'
import { type RealService, realService } from '../support/service.ts'

describe('PLINTH_METRICS_PORT', () => {
  let service: RealService
  let base: string
  before(async () => {
    const port = await freePort()
    base = `http://127.0.0.1:${port}`
    service = await realService({ PLINTH_METRICS_PORT: String(port), PLINTH_ROLES: 'worker' })
    await service.start()
  })
  after(() => service.remove())

  const ask = async (path: string, method = 'GET', body?: string) => {
    const response = await request(base + path, { method: method as 'GET', body })
    return { status: response.statusCode, headers: response.headers, text: await response.body.text() }
  }

  it('200 with the metrics of a worker, without a token', async () => {
    const { status, headers, text } = await ask('/metrics')
    assert.deepEqual([status, headers['content-type']], [200, 'text/plain; version=0.0.4; charset=utf-8'])
    assert.equal(scraped(text).value('plinth_build_info', { node: process.version }), 1)
    assert.equal((await ask('/metrics?x=1', 'HEAD')).text, '')
  })

  it('200 from /livez and /readyz', async () => {
    for (const path of ['/livez', '/readyz']) assert.deepEqual((await ask(path)).text, '{"status":"ok"}')
  })

  it('404 for the API and for other methods', async () => {
    for (const path of ['/', '/products', '/oauth/token', '/metricsx', '/metrics/', '/openapi.json', '/docs']) {
      assert.equal((await ask(path)).status, 404, path)
    }
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) assert.equal((await ask('/metrics', method)).status, 404)
    assert.equal((await ask('/metrics', 'POST', 'x'.repeat(100_000))).status, 404)
    assert.equal((await ask('/readyz', 'POST')).status, 404)
  })

  it('401 without a token at the main listener (T-OPS-04)', async () => {
    const headers = { authorization: '' }
    assert.equal((await service.call('GET', '/metrics', { headers })).status, 401)
  })

  it('is closed on SIGTERM, and the process exits with code 0', async () => {
    const open = await request(`${base}/livez`)
    await open.body.dump()
    await service.kill('SIGTERM')
    assert.equal(service.child().exitCode, 0)
    await assert.rejects(request(`${base}/metrics`), { code: 'ECONNREFUSED' })
  })

  it('makes the process exit with an error that names the setting if the port is in use', async () => {
    const blocker = createServer().listen(Number(new URL(base).port), '127.0.0.1')
    await once(blocker, 'listening')
    await assert.rejects(
      service.start(),
      /Cannot listen on 127\.0\.0\.1 port \d+: .*set PLINTH_METRICS_PORT to another port/,
    )
    blocker.close()
  })
})
