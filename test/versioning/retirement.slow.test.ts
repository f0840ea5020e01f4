import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { sendRaw } from '../http/support.ts'
import { appOn } from '../support/app.ts'
import { onSqlite } from '../support/engines.ts'
import { ending, lifecyclesOf } from '../support/version-lifecycles.ts'

const origin = 'https://app.example.com'
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const

onSqlite((engine) => {
  describe('a retired version (T-API-07)', () => {
    const service = appOn(engine, { lifecycles: lifecyclesOf(ending), corsOrigins: [origin] })

    for (const path of [
      '/v0',
      '/v0/',
      '/v0/products',
      '/v0/products/1?fields=name',
      '/v0/nothing',
      '/v0/openapi.json',
      '/v0/%zz',
    ]) {
      it(`410 at ${path} for everyone, with a Link to the successor`, async () => {
        for (const sent of [{ scopes: null }, { token: 'expired' }, {}]) {
          const answer = await service.send({ url: path, ...sent })
          const { errorCode, detail } = answer.json()
          assert.deepEqual([answer.statusCode, errorCode], [410, 'VERSION_RETIRED'])
          const [bare = ''] = path.slice(3).split('?')
          assert.equal(answer.headers.link, `</v1${bare}>; rel="successor-version"`)
          assert.match(detail, /^API version v0 .* use v1$/)
          assert.equal(answer.headers['cache-control'], 'no-store')
          assert.equal(answer.headers.deprecation, undefined)
        }
      })
    }

    it('410 for every method, regardless of the body', async () => {
      for (const method of methods) {
        const payload =
          method === 'GET' || method === 'HEAD' ? {} : { payload: 'x', headers: { 'content-type': 'text/plain' } }
        const answer = await service.send({ method, url: '/v0/products', ...payload })
        assert.equal(answer.statusCode, 410, method)
        if (method === 'HEAD') assert.equal(answer.body, '')
      }
    })

    it('410 as a plain JSON error for Accept: application/json', async () => {
      const answer = await service.send({ url: '/v0/products', headers: { accept: 'application/json' } })
      const { errorCode, path, type } = answer.json()
      assert.deepEqual([answer.statusCode, errorCode, path, type], [410, 'VERSION_RETIRED', '/v0/products', undefined])
    })

    it('410 after a successful preflight, readable by pages from an allowed origin', async () => {
      const asked = { origin, 'access-control-request-method': 'GET' }
      const preflight = await service.send({ method: 'OPTIONS', url: '/v0/products', headers: asked })
      assert.equal(preflight.statusCode, 204)
      const answer = await service.send({ url: '/v0/products', headers: { origin } })
      assert.deepEqual([answer.statusCode, answer.headers['access-control-allow-origin']], [410, origin])
    })

    it('410 for any spelling of the version prefix, 400 for a repeated Authorization header', async () => {
      const ask = (target: string, ...more: string[]) =>
        sendRaw(service, [
          `GET ${target} HTTP/1.1`,
          'Host: plinth.test',
          'X-Forwarded-Proto: https',
          'Connection: close',
          ...more,
        ])
      for (const target of ['/%76%30/x', 'https://plinth.test/v0/x']) {
        assert.deepEqual(
          [(await ask(target)).status, (await ask(target)).headers.link],
          [410, '</v1/x>; rel="successor-version"'],
        )
      }
      assert.equal((await ask('/v0/x', 'Authorization: a', 'Authorization: b')).status, 400)
    })

    it('410 with a Link to the successor, rather than 417, for an unsupported Expect', async () => {
      const head = ['Host: plinth.test', 'X-Forwarded-Proto: https', 'Connection: close', 'Expect: foo']
      const answer = await sendRaw(service, ['GET /v0/products HTTP/1.1', ...head])
      assert.deepEqual([answer.status, answer.headers.link], [410, '</v1/products>; rel="successor-version"'])
    })
  })

  describe('a retired v1', () => {
    const service = appOn(engine, { lifecycles: lifecyclesOf('{"v1":{"status":"retired"}}') })

    it('410 at its paths with and without a prefix', async () => {
      for (const path of [
        '/v1/products',
        '/products',
        '/users/1',
        '/books',
        '/api/reports',
        '/api/nothing',
        '/v1/nothing',
      ]) {
        const answer = await service.send({ url: path, scopes: null })
        assert.deepEqual([answer.statusCode, answer.json().errorCode], [410, 'VERSION_RETIRED'], path)
        assert.equal(answer.headers.link, `</v2${path.replace(/^\/v1/, '')}>; rel="successor-version"`)
      }
    })

    it("200 at the successor's paths and at paths outside any version", async () => {
      for (const path of [
        '/v2/products',
        '/livez',
        '/docs',
        '/problems/version-retired',
        '/openapi.json',
        '/v2/openapi.json',
      ]) {
        assert.equal((await service.send({ url: path })).statusCode, 200, path)
      }
      assert.equal((await service.send({ url: '/nothing' })).statusCode, 404)
    })

    it('is replaced by its successor in /openapi.json, and does not appear in /docs', async () => {
      const { servers, paths } = (await service.send({ url: '/openapi.json' })).json()
      assert.deepEqual(servers, [{ url: 'https://plinth.test/v2' }])
      assert.ok(paths['/products'] && !paths['/products'].servers)
      assert.deepEqual(paths['/livez'].servers, [{ url: 'https://plinth.test' }])
      assert.match((await service.send({ url: '/docs/start.js' })).body, /"\/openapi.json"[\s\S]*"\/v2\/openapi.json"/)
      assert.doesNotMatch((await service.send({ url: '/docs/start.js' })).body, /v1/)
    })
  })

  describe('OpenAPI documents', () => {
    const service = appOn(engine, { lifecycles: lifecyclesOf(ending) })

    it('mark only the operations of a deprecated version as deprecated, and describe its headers', async () => {
      for (const url of ['/openapi.json', '/v1/openapi.json']) {
        const { paths, info } = (await service.send({ url })).json()
        assert.equal(paths['/products'].get.deprecated, true, url)
        for (const name of ['Deprecation', 'Sunset', 'Link']) assert.ok(info.description.includes(`\`${name}\``), name)
      }
      const { paths } = (await service.send({ url: '/openapi.json' })).json()
      assert.equal(paths['/livez'].get.deprecated, undefined)
    })

    it('do not mention deprecation for an active version', async () => {
      const text = (await service.send({ url: '/v2/openapi.json' })).body
      assert.doesNotMatch(text, /"deprecated":|Sunset/)
    })
  })
})
