import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it, type TestContext } from 'node:test'
import { pathToFileURL } from 'node:url'
import { builtIn } from '../../src/catalog/service.ts'
import { readConfig } from '../../src/config/config.ts'
import { freePort } from '../../src/serving/listeners.ts'
import { startService } from '../../src/start.ts'
import { ended, eventually, killAll, newPlace, plinth, visit } from '../cli/support.ts'
import { collector, kinds, type ReceivedSpan } from '../support/collector.ts'
import { forEachEngine } from '../support/engines.ts'
import { receiver } from '../support/webhooks.ts'

const traceId = '0af7651916cd43dd8448eb211c80319c'
const parentId = 'b7ad6b7169203331'
const traced = { traceparent: `00-${traceId}-${parentId}-01`, tracestate: 'vendor=value' }

/** Starts a service, and returns a function that sends requests to it. */
async function serviceOn(t: TestContext, databaseUrl: string, env: Record<string, string>) {
  const dataDir = mkdtempSync(join(tmpdir(), 'plinth-traces-'))
  const port = await freePort()
  const config = readConfig({
    ...{ PLINTH_DATA_DIR: dataDir, DATABASE_URL: databaseUrl, PLINTH_LOG_LEVEL: 'silent', PLINTH_DRAIN: '0' },
    ...{ PLINTH_PORT: String(port), PLINTH_TLS: 'off', OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment=test%20a' },
    ...{ PLINTH_BOOTSTRAP_CLIENT_ID: 'boot', PLINTH_BOOTSTRAP_CLIENT_SECRET: 'boot', ...env },
  })
  const service = await startService(config, builtIn, '1.2.3')
  t.after(() => rmSync(dataDir, { recursive: true }))
  const base = `http://localhost:${port}`
  const form = { 'content-type': 'application/x-www-form-urlencoded', authorization: `Basic ${btoa('boot:boot')}` }
  const grant = { method: 'POST', headers: form, body: 'grant_type=client_credentials' }
  const { access_token } = (await (await fetch(`${base}/oauth/token`, grant)).json()) as { access_token: string }
  const send = (method: string, path: string, body?: object, headers: Record<string, string> = {}) =>
    fetch(base + path, {
      method,
      headers: { authorization: `Bearer ${access_token}`, 'content-type': 'application/json', ...headers },
      ...(body && { body: JSON.stringify(body) }),
    })
  return { service, send }
}

forEachEngine((engine) => {
  describe('exported traces', () => {
    it('connect a request to its report job and webhook call, without query strings or webhook paths', async (t) => {
      const place = await engine.migratedPlace()
      t.after(() => place.remove())
      const { received, url } = await collector(t)
      const hook = await receiver(t, () => ({ status: 204 }))
      const { service, send } = await serviceOn(t, place.url, {
        ...{ OTEL_EXPORTER_OTLP_ENDPOINT: `${url}/`, OTEL_EXPORTER_OTLP_HEADERS: 'x-token=a%20b' },
      })
      const callback = { event: 'report.completed', callbackUrl: `${hook.url}?secret=1` }
      assert.equal((await send('POST', '/api/webhooks', callback)).status, 201)
      const report = { reportType: 'users', format: 'csv' }
      assert.equal((await send('POST', '/api/reports?x-query=1', report, traced)).status, 202)
      await eventually('the webhook was called', async () => hook.calls.length > 0)
      await send('GET', '/products/999')
      // Exports the remaining spans.
      await service.close()

      const spans = received.spans
      const find = (name: string, more: (span: ReceivedSpan) => boolean = () => true) => {
        const span = spans.find((one) => one.name === name && more(one))
        assert.ok(span, `${name} in ${spans.map((one) => one.name)}`)
        return span
      }
      const request = find('POST /api/reports', ({ attributes }) => attributes['http.response.status_code'] === 202)
      const job = find('report.generate')
      const call = find('POST', ({ kind }) => kind === kinds.client)
      assert.deepEqual(
        [request, job, call].map(({ traceId: id, parentSpanId }) => [id, parentSpanId]),
        [
          [traceId, parentId],
          [traceId, request.spanId],
          [traceId, job.spanId],
        ],
      )
      assert.deepEqual([request.kind, job.kind], [kinds.server, kinds.consumer])
      assert.equal(
        hook.calls[0]?.headers.traceparent,
        `00-${traceId}-${call.spanId}-01`,
        'the span of the call is the parent of what the receiver does',
      )
      assert.equal(hook.calls[0]?.headers.tracestate, traced.tracestate)
      const { 'plinth.request_id': requestId, ...attributes } = request.attributes
      assert.deepEqual(attributes, {
        ...{ 'http.request.method': 'POST', 'url.path': '/api/reports', 'http.route': '/api/reports' },
        'http.response.status_code': 202,
      })
      assert.match(String(requestId), /^[\w-]{36}$/)
      assert.deepEqual([call.attributes['http.response.status_code'], call.attributes['plinth.attempt']], [204, 1])
      assert.doesNotMatch(JSON.stringify(spans), /secret|x-query|\/hook/)

      const missing = find('GET /products/{id}')
      assert.equal(missing.attributes['http.response.status_code'], 404)
      assert.notEqual(missing.traceId, traceId)
      assert.equal(missing.parentSpanId ?? '', '')
      assert.ok(find('event.fan-out'))

      const [resource] = received.resources
      assert.deepEqual(
        [resource?.['service.name'], resource?.['service.version'], resource?.['deployment.environment']],
        ['plinth', '1.2.3', 'test a'],
      )
      assert.deepEqual(
        received.requests.map(({ url: path, headers }) => [path, headers['x-token'], headers['content-type']])[0],
        ['/v1/traces', 'a b', 'application/json'],
      )
    })
  })
})

describe('a service without a collector', () => {
  after(killAll)

  it('loads neither the OpenTelemetry SDK nor an exporter', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'plinth-modules-'))
    const hook = join(folder, 'hook.mjs')
    // Synchronously prints the URL of each loaded module.
    writeFileSync(
      hook,
      `import { registerHooks } from 'node:module'
       import { writeSync } from 'node:fs'
       registerHooks({ load: (url, context, next) => { writeSync(2, url + '\\n'); return next(url, context) } })`,
    )
    const { port, env, dataDir, remove } = await newPlace()
    const service = plinth(['serve'], { ...env, PLINTH_TLS: 'off', NODE_OPTIONS: `--import=${pathToFileURL(hook)}` })
    const look = () => visit(dataDir, `http://localhost:${port}/products`).catch(() => false as const)
    await eventually('it responds', look, 30_000)
    service.child.kill('SIGTERM')
    const { code, stderr } = await ended(service)
    remove()
    rmSync(folder, { recursive: true })
    assert.equal(code, 0)
    assert.match(stderr, /\/(build|src)\/main\./)
    // The metrics library loads the OpenTelemetry API, which does nothing without an SDK.
    assert.doesNotMatch(stderr, /@opentelemetry\/(?!api\/)|src\/tracing/)
  })
})
