import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { apiHeaders as documented } from '../../src/openapi/components.ts'
import { type Mounted, mount, send } from './support.ts'

const origin = 'https://app.example.com'
const local = 'http://localhost:5173'
const all = [
  'cors',
  'requestIntegrity',
  'methods',
  'contentNegotiation',
  'bodyParsing',
  'conditional',
  'accessLog',
] as const

describe('cors', () => {
  let mounted: Mounted
  before(async () => {
    const routes: Parameters<typeof mount>[1] = (app) => {
      const config = { scope: 'public', cache: 'public' } as const
      app.get('/thing', { config }, async () => ({ revision: 3, updatedAt: '2026-02-01T10:20:30.400Z' }))
      app.put('/thing', { config: { scope: 'things:write' } }, async () => ({}))
      app.get('/broken', { config }, async () => {
        throw new Error('broken')
      })
    }
    mounted = await mount([...all], routes, { corsOrigins: [origin, local] })
  })
  after(() => mounted.app.close())

  type Sent = Parameters<typeof send>[1]
  const ask = (headers: Record<string, string>, sent: Sent = {}) => send(mounted, { url: '/thing', ...sent, headers })
  const family = (headers: Record<string, unknown>) =>
    Object.keys(headers).filter((name) => name.startsWith('access-control-'))

  describe('a request from an allowed origin', () => {
    const answers: [status: number, sent: Sent & { headers?: Record<string, string> }][] = [
      [200, {}],
      [200, { method: 'HEAD' }],
      [304, { headers: { 'if-none-match': '"3"' } }],
      [400, { url: '/thing', headers: { host: 'a b' } }],
      [400, { url: '/thing/%zz' }],
      [401, { headers: { authorization: 'Bearer wrong' } }],
      [401, { method: 'PUT' }],
      [403, { method: 'PUT', headers: { authorization: 'Bearer reader' } }],
      [404, { url: '/nothing' }],
      [405, { method: 'DELETE' }],
      [406, { headers: { accept: 'text/html' } }],
      [412, { headers: { 'if-match': '"2"' } }],
      [414, { url: `/thing?${'x'.repeat(9_000)}` }],
      [500, { url: '/broken' }],
      [204, { method: 'OPTIONS' }],
    ]
    for (const [status, { headers = {}, ...sent }] of answers) {
      const request = JSON.stringify({ ...sent, headers }).slice(0, 80)
      it(`${status} with the origin and credentials allowed and the headers exposed: ${request}`, async () => {
        const answer = await ask({ origin, ...(headers as Record<string, string>) }, sent)
        assert.equal(answer.statusCode, status)
        assert.equal(answer.headers['access-control-allow-origin'], origin)
        assert.equal(answer.headers['access-control-allow-credentials'], 'true')
        assert.match(String(answer.headers.vary), /\bOrigin\b/)
        const exposed = String(answer.headers['access-control-expose-headers']).split(', ')
        for (const name of Object.keys(documented)) assert.ok(exposed.includes(name), name)
        assert.ok(!exposed.includes('*'))
      })
    }

    it('200 with only the origin of the request in Access-Control-Allow-Origin', async () => {
      assert.equal((await ask({ origin: local })).headers['access-control-allow-origin'], local)
    })

    it('200 or 404 with each header listed only once in Vary, including headers added by other policies', async () => {
      assert.equal((await ask({ origin })).headers.vary, 'Origin, Accept, Accept-Encoding, Authorization, X-API-Key')
      assert.equal((await ask({ origin }, { url: '/nothing' })).headers.vary, 'Origin, Accept')
    })
  })

  describe('a preflight from an allowed origin', () => {
    const preflight = (url: string, method = 'PUT') =>
      ask(
        { origin, 'access-control-request-method': method, 'access-control-request-headers': 'authorization' },
        { method: 'OPTIONS', url },
      )

    for (const url of ['/thing', '/thing?x=1', '/nothing', '/oauth/token', '/.well-known/openid-configuration']) {
      it(`204 without a token at ${url}, with the allowed methods, headers and credentials, and a max age`, async () => {
        const answer = await preflight(url)
        assert.equal(answer.statusCode, 204)
        assert.equal(answer.body, '')
        assert.equal(answer.headers['content-length'], undefined)
        assert.equal(answer.headers['content-type'], undefined)
        assert.equal(answer.headers['access-control-allow-origin'], origin)
        assert.equal(answer.headers['access-control-allow-credentials'], 'true')
        assert.equal(answer.headers['access-control-max-age'], '600')
        assert.equal(answer.headers['access-control-expose-headers'], undefined)
        const methods = String(answer.headers['access-control-allow-methods']).split(', ')
        assert.deepEqual(methods, ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'])
        const headers = String(answer.headers['access-control-allow-headers']).toLowerCase().split(', ')
        for (const name of [
          'authorization',
          'content-type',
          'if-match',
          'if-none-match',
          'idempotency-key',
          'last-event-id',
          'prefer',
        ]) {
          assert.ok(headers.includes(name), name)
        }
        const vary = 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers'
        assert.equal(answer.headers.vary, vary)
        assert.ok(answer.headers['strict-transport-security'])
        assert.ok(answer.headers['x-request-id'])
      })
    }

    it('204 even with an invalid token, although no browser sends one', async () => {
      const headers = { origin, authorization: 'Bearer wrong', 'access-control-request-method': 'GET' }
      assert.equal((await ask(headers, { method: 'OPTIONS' })).statusCode, 204)
    })
  })

  describe('a request from any other origin (T-HTTP-15)', () => {
    const others = [
      'null',
      '*',
      '',
      'https://evil.test',
      'http://app.example.com',
      'https://app.example.com.evil.test',
      'https://app.example.comevil.test',
      'https://evilapp.example.com',
      'https://evil.test/https://app.example.com',
      'https://x.app.example.com',
      'https://example.com',
      'https://app.example.com:443',
      'https://app.example.com:8443',
      'https://app.example.com/',
      'https://app.example.com.',
      'https://app.example.com%00',
      'https://app.example.com%60.evil.test',
      'https://app_example.com',
      'https://appxexample.com',
      'https://APP.EXAMPLE.COM',
      'HTTPS://app.example.com',
      'https://user@app.example.com',
      'https://app.example.com@evil.test',
      'https://app.example.com#x',
      'https://app.example.com?x',
      'https://app.example.com, https://evil.test',
      'https://evil.test, https://app.example.com',
      'https://app.example.com https://evil.test',
      '//app.example.com',
      'app.example.com',
      'https:app.example.com',
      'https:///app.example.com',
      'https:\\\\app.example.com',
      'file://',
      'file:///app.example.com',
      'chrome-extension://app.example.com',
      'http://localhost',
      'http://localhost:5174',
      'https://localhost:5173',
      'http://127.0.0.1:5173',
      'http://localhost:5173.evil.test',
      'https://xn--pp-example-0wa.com',
      'https://[::1]',
    ]
    for (const other of others) {
      it(`200, or 204 for a preflight, without CORS headers: ${other || '(empty)'}`, async () => {
        const answer = await ask({ origin: other })
        assert.equal(answer.statusCode, 200)
        assert.deepEqual(family(answer.headers), [])
        assert.match(String(answer.headers.vary), /\bOrigin\b/)
        const preflight = await ask({ origin: other, 'access-control-request-method': 'PUT' }, { method: 'OPTIONS' })
        assert.equal(preflight.statusCode, 204)
        assert.deepEqual(family(preflight.headers), [])
        assert.equal(preflight.headers.allow, 'GET, HEAD, OPTIONS, PUT')
      })
    }
  })

  it('no CORS headers except Vary: Origin for a request without Origin', async () => {
    const answer = await ask({})
    assert.deepEqual(family(answer.headers), [])
    assert.match(String(answer.headers.vary), /\bOrigin\b/)
  })

  it('Allow, but no Access-Control-Allow-Methods, for OPTIONS without Access-Control-Request-Method', async () => {
    const answer = await ask({ origin }, { method: 'OPTIONS' })
    assert.equal(answer.headers.allow, 'GET, HEAD, OPTIONS, PUT')
    assert.equal(answer.headers['access-control-allow-methods'], undefined)
  })

  it('301 without CORS headers over plain HTTP', async () => {
    const answer = await ask({ origin, 'x-forwarded-proto': 'http' })
    assert.equal(answer.statusCode, 301)
    assert.deepEqual(family(answer.headers), [])
  })

  it('no CORS headers and no Vary: Origin if no origins are allowed', async (t) => {
    const routes: Parameters<typeof mount>[1] = (app) =>
      app.get('/thing', { config: { scope: 'public' } }, async () => ({}))
    const closed = await mount([...all], routes)
    t.after(() => closed.app.close())
    const answer = await send(closed, { url: '/thing', headers: { origin } })
    assert.deepEqual(family(answer.headers), [])
    assert.equal(answer.headers.vary, undefined)
  })
})
