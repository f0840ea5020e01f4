import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { collection, Line, service, Type } from '../src/plinth.ts'
import type { Database } from '../src/storage/database.ts'
import { type TestApp, testApp } from './support/app.ts'
import { onSqlite } from './support/engines.ts'
import { lifecyclesOf } from './support/version-lifecycles.ts'

const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8'

onSqlite((engine) => {
  describe('GET /', () => {
    let db: Database
    let app: TestApp
    before(async () => {
      db = await engine.database()
      app = await testApp(db, { version: '1.2.3', console: true })
    })
    after(async () => {
      await app.app.close()
      await db.close()
    })
    const get = (headers: Record<string, string> = {}) => app.send({ url: '/', headers, scopes: null })

    it('200 with a JSON index by default; all its links resolve', async () => {
      for (const accept of [undefined, '*/*', 'application/json']) {
        const answer = await get(accept ? { accept } : {})
        assert.deepEqual([answer.statusCode, answer.headers['content-type']], [200, 'application/json; charset=utf-8'])
        const { name, version, resources, _links } = answer.json()
        assert.deepEqual([name, version], ['Plinth', '1.2.3'])
        assert.deepEqual(Object.keys(resources), ['users', 'products', 'books'])
        assert.deepEqual(Object.keys(_links), [
          'docs',
          'console',
          'openapi',
          'openapi-v1',
          'openapi-v2',
          'problems',
          'health',
        ])
        for (const { href } of [
          ...Object.values<{ href: string }>(resources),
          ...Object.values<{ href: string }>(_links),
        ]) {
          assert.equal((await app.send({ url: href, scopes: 'users:read' })).statusCode, 200, href)
        }
      }
    })

    it('200 with a page for browsers, with a CSP that allows only the page’s own style', async () => {
      const answer = await get({ accept: browser })
      assert.deepEqual([answer.statusCode, answer.headers['content-type']], [200, 'text/html; charset=utf-8'])
      assert.match(String(answer.headers['content-security-policy']), /^default-src 'none'; style-src 'sha256-[^']+';/)
      const links = [...answer.body.matchAll(/href="([^"]+)"/g)].map(([, path]) => path as string)
      assert.deepEqual(links, [
        '/docs',
        '/console',
        '/openapi.json',
        '/v1/openapi.json',
        '/v2/openapi.json',
        '/problems',
        '/livez',
        '/readyz',
      ])
      assert.doesNotMatch(answer.body, /<script|https?:/)
    })

    it('200 and 304 for HTML and JSON, each with its own ETag and public caching headers', async () => {
      const [page, index] = [await get({ accept: browser }), await get()]
      assert.notEqual(page.headers.etag, index.headers.etag)
      for (const [{ headers }, accept] of [
        [page, browser],
        [index, '*/*'],
      ] as const) {
        assert.match(String(headers['cache-control']), /^public, max-age=/)
        assert.match(String(headers.vary), /Accept/)
        assert.ok(headers['strict-transport-security'] && headers['x-content-type-options'])
        assert.equal((await get({ accept, 'if-none-match': String(headers.etag) })).statusCode, 304)
      }
    })

    it('200 for HEAD, but 401, 405 or 406 for an invalid token, method or media type', async () => {
      assert.equal((await app.send({ method: 'HEAD', url: '/', scopes: null })).statusCode, 200)
      const posted = await app.send({ method: 'POST', url: '/', scopes: null })
      assert.deepEqual([posted.statusCode, posted.headers.allow], [405, 'GET, HEAD, OPTIONS'])
      assert.equal((await get({ accept: 'image/png' })).statusCode, 406)
      assert.equal((await app.send({ url: '/', token: 'expired' })).statusCode, 401)
    })

    it('200 with links to a custom definition’s resources in the oldest version that is not retired', async () => {
      const lineItems = collection({ path: '/line-items', noun: 'lineItem', body: Type.Object({ title: Line(1, 50) }) })
      const definition = service({ resources: [lineItems] })
      const plans = JSON.stringify({ v1: { status: 'retired', successor: 'v2' } })
      const own = await testApp(db, { definition, lifecycles: lifecyclesOf(plans, definition) })
      const index = await own.send({ url: '/', scopes: null })
      assert.deepEqual(index.json().resources, { 'line-items': { href: '/v2/line-items' } })
      const page = await own.send({ url: '/', scopes: null, headers: { accept: browser } })
      assert.match(page.body, /for programs: line items, reports, and webhooks/)
      await own.app.close()
    })
  })
})
