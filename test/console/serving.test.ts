import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { builtIn } from '../../src/catalog/service.ts'
import type { Version } from '../../src/definition/version.ts'
import { appOn, type TestApp } from '../support/app.ts'
import { onSqlite } from '../support/engines.ts'
import { lifecyclesOf } from '../support/version-lifecycles.ts'

const file = (name: string) => readFileSync(new URL(`../../console/dist/${name}`, import.meta.url))
const [, script = ''] = /src="\/console\/(assets\/[^"]+\.js)"/.exec(file('index.html').toString()) ?? []

onSqlite((engine) => {
  describe('the console', () => {
    const on = appOn(engine, { console: true })
    const off = appOn(engine)
    const retired = appOn(engine, { console: true, lifecycles: lifecyclesOf('{"v1":{"status":"retired"}}') })
    const ended = { status: 'deprecated', deprecatedAt: '2026-09-01', sunsetAt: '2027-09-01', successor: 'v1' }
    const withdrawn = appOn(engine, { console: true, lifecycles: lifecyclesOf(JSON.stringify({ v2: ended })) })
    const { v1 } = builtIn.versions
    const single = appOn(engine, { console: true, definition: { ...builtIn, versions: { v1: v1 as Version } } })
    const taken = appOn(engine, { console: true, consoleClientId: null })
    const get = (url: string, headers: Record<string, string> = {}) => on.send({ url, headers, scopes: null })

    it('200 with the page for every path under /console; each response and its CSP contain a new nonce', async () => {
      const nonces = new Set<string>()
      for (const url of ['/console', '/console/', '/console/records/products?page=2', '/console/nowhere']) {
        const { statusCode, headers, body } = await get(url)
        assert.deepEqual([statusCode, headers['content-type']], [200, 'text/html; charset=utf-8'], url)
        assert.equal(headers['cache-control'], 'no-store')
        const [, nonce = ''] = /'nonce-([A-Za-z0-9+/]{24})'/.exec(String(headers['content-security-policy'])) ?? []
        assert.match(body, new RegExp(`<meta property="csp-nonce" nonce="${nonce.replaceAll('+', '\\+')}">`))
        assert.doesNotMatch(body, /__NONCE__/)
        nonces.add(nonce)
      }
      assert.equal(nonces.size, 4)
    })

    it('contains the path prefix of the newest active version, which is empty for v1', async () => {
      const cases: [string, TestApp, string][] = [
        ['v1 and v2 are active', on, '/v2'],
        ['v1 is retired', retired, '/v2'],
        ['v2 is deprecated', withdrawn, ''],
        ['there is only v1', single, ''],
      ]
      for (const [state, { send }, prefix] of cases) {
        const { body } = await send({ url: '/console/webhooks', scopes: null })
        const [, found] = /<meta name="api-prefix" content="([^"]*)" \/>/.exec(body) ?? []
        assert.equal(found, prefix, state)
        assert.equal((await send({ url: `${prefix}/openapi.json`, scopes: null })).statusCode, 200, state)
      }
    })

    it('has a CSP that allows only this origin, no inline scripts and no framing', async () => {
      const policy = String((await get('/console/')).headers['content-security-policy'])
      const allowed = policy.replace(/'nonce-[^']+'/, 'nonce').split('; ')
      assert.deepEqual(allowed, [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' nonce",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
      ])
      assert.doesNotMatch((await get('/console/')).body, /<script(?![^>]* src="\/console\/assets\/)|https?:|style=/)
    })

    it('200 with a script, cacheable for a year, compressed if the client accepts gzip', async () => {
      const plain = await get(`/console/${script}`)
      assert.deepEqual(
        [plain.statusCode, plain.headers['content-type'], plain.headers['content-encoding']],
        [200, 'text/javascript; charset=utf-8', undefined],
      )
      assert.equal(plain.headers['cache-control'], 'public, max-age=31536000, immutable')
      assert.deepEqual(plain.rawPayload, file(script))
      const packed = await get(`/console/${script}`, { 'accept-encoding': 'gzip' })
      assert.deepEqual([packed.headers['content-encoding'], packed.headers.vary], ['gzip', 'Accept-Encoding'])
      assert.deepEqual(gunzipSync(packed.rawPayload), file(script))
    })

    it('404 for a file that is not in the build, and for paths outside the build', async () => {
      for (const name of ['index.js', '..%2findex.html', '..%2f..%2fpackage.json', 'licences.md']) {
        const { statusCode, headers } = await get(`/console/assets/${name}`)
        assert.equal(statusCode, 404, name)
        assert.match(String(headers['content-type']), /json/)
      }
    })

    it('405 with Allow for POST', async () => {
      const { statusCode, headers } = await on.send({ method: 'POST', url: '/console/', payload: {}, scopes: null })
      assert.equal(statusCode, 405)
      assert.match(String(headers.allow), /GET/)
    })

    it('404 for every path if the console is disabled', async () => {
      for (const url of ['/console', '/console/', `/console/${script}`]) {
        assert.equal((await off.send({ url, scopes: null })).statusCode, 404, url)
      }
    })

    it('404 with the reason if the client id `console` is taken', async () => {
      for (const url of ['/console', '/console/records/products']) {
        const response = await taken.send({ url, scopes: null })
        assert.equal(response.statusCode, 404)
        assert.match(response.body, /client id `console` belongs to another client/)
      }
    })

    it('downloads at most 200 KiB of compressed scripts for its first page', async () => {
      const { body } = await get('/console/')
      const urls = [...body.matchAll(/(?:src|href)="(\/console\/assets\/[^"]+\.js)"/g)].map(([, url]) => url as string)
      assert.ok(urls.length > 0)
      let bytes = 0
      for (const url of urls) bytes += (await get(url, { 'accept-encoding': 'gzip' })).rawPayload.length
      assert.ok(bytes <= 200 * 1_024, `${bytes} bytes`)
    })
  })
})
