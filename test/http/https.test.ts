import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { proxyList } from '../../src/http/policies/https.ts'
import { health } from '../../src/http/server/health.ts'
import { baseUrl, type Mounted, mount, send, sendRaw } from './support.ts'

const config = { scope: 'public' }
const hsts = 'max-age=31536000; includeSubDomains'

describe('https', () => {
  let mounted: Mounted
  let reached: string[]
  before(async () => {
    reached = []
    mounted = await mount(['errorHandler', 'https'], (app) => {
      app.get('/things', { config }, async (request) => {
        reached.push(request.url)
        return { name: 'Pen' }
      })
      app.post('/things', { config }, async () => {
        throw new Error('broken')
      })
    })
  })
  after(() => mounted.app.close())

  describe('a request over plain HTTP (T-HTTP-12)', () => {
    const plain = { 'x-forwarded-proto': 'http' }

    it('301 to the same path and query at the configured host, regardless of the Host header', async () => {
      reached.length = 0
      const url = '/things?name=a%20b&x=//evil.test'
      const answer = await send(mounted, { url, headers: { ...plain, host: 'evil.test' } })
      assert.equal(answer.statusCode, 301)
      assert.equal(answer.headers.location, baseUrl + url)
      assert.equal(answer.headers['cache-control'], 'no-store')
      assert.deepEqual(reached, [])
    })

    it('301 without Strict-Transport-Security, which browsers accept only over HTTPS', async () => {
      const answer = await send(mounted, { url: '/things', headers: plain })
      assert.equal(answer.headers['strict-transport-security'], undefined)
      assert.equal(answer.headers['set-cookie'], undefined)
    })

    it('301 for every method, for requests with credentials, and for unknown paths', async () => {
      for (const [method, url] of [
        ['POST', '/things'],
        ['DELETE', '/nothing'],
        ['OPTIONS', '/things'],
      ] as const) {
        const answer = await send(mounted, { method, url, token: 'writer', headers: plain })
        assert.equal(answer.statusCode, 301, `${method} ${url}`)
        assert.equal(answer.headers.location, baseUrl + url)
      }
    })

    it('200 or 503 at /livez and /readyz, never 301, because probes treat 301 as healthy (RFC 9110 §15.4)', async () => {
      const stopping = new AbortController()
      const plainly = await mount(['errorHandler', 'https'], (app) => {
        app.register(health, { check: async () => {}, now: () => 0, stopping: stopping.signal })
      })
      const statuses = async () => {
        const asked = ['/livez', '/readyz', '/livez?from=probe'].map((url) => send(plainly, { url, headers: plain }))
        return (await Promise.all(asked)).map(({ statusCode }) => statusCode)
      }
      assert.deepEqual(await statuses(), [200, 200, 200])
      stopping.abort()
      assert.deepEqual(await statuses(), [200, 503, 200])
      const other = await send(plainly, { url: '/livezz', headers: plain })
      assert.equal(other.statusCode, 301)
      await plainly.app.close()
    })

    it('301 to the configured host if the request target is an absolute URL (T-HTTP-04)', async () => {
      const answer = await sendRaw(mounted, ['GET http://evil.test/things HTTP/1.1', 'Host: a', 'Connection: close'])
      assert.equal(answer.status, 301)
      assert.equal(new URL(answer.headers.location as string).origin, baseUrl)
    })
  })

  describe('Strict-Transport-Security (T-HTTP-13)', () => {
    const hardened = {
      'strict-transport-security': hsts,
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
    }
    for (const [method, url, status] of [
      ['GET', '/things', 200],
      ['HEAD', '/things', 200],
      ['POST', '/things', 500],
      ['GET', '/nothing', 404],
    ] as const) {
      it(`is sent with the other security headers in a ${status} for ${method} ${url}`, async () => {
        const { statusCode, headers } = await send(mounted, { method, url })
        assert.equal(statusCode, status)
        for (const [name, value] of Object.entries(hardened)) assert.equal(headers[name], value, name)
        assert.equal(headers.server, undefined)
        assert.equal(headers['x-powered-by'], undefined)
      })
    }
  })

  describe('X-Forwarded-Proto (T-HTTP-11)', () => {
    const lists = [
      { trustedProxies: [], peers: { '127.0.0.1': 301, '10.1.2.3': 301, '::1': 301 } },
      {
        trustedProxies: ['10.1.0.0/16', '192.0.2.7', 'fd00::/8'],
        peers: {
          '10.1.2.3': 200,
          '10.2.0.1': 301,
          '192.0.2.7': 200,
          '192.0.2.8': 301,
          '127.0.0.1': 301,
          'fd12::1': 200,
          'fe80::1': 301,
          '::ffff:10.1.2.3': 200,
          '::ffff:10.2.0.1': 301,
        },
      },
    ]
    for (const { trustedProxies, peers } of lists) {
      it(`200 only if the peer is in [${trustedProxies}]`, async (t) => {
        const { app } = await mount(['https'], (app) => void app.get('/things', { config }, async () => ({})), {
          trustedProxies,
        })
        t.after(() => app.close())
        for (const [remoteAddress, status] of Object.entries(peers)) {
          const answer = await send({ app }, { url: '/things', remoteAddress })
          assert.equal(answer.statusCode, status, remoteAddress)
        }
      })
    }

    it('301 for a trusted peer if the header is not exactly https', async () => {
      for (const value of ['http', 'https, http', 'http, https', '', 'httpsx']) {
        const answer = await send(mounted, { url: '/things', headers: { 'x-forwarded-proto': value } })
        assert.equal(answer.statusCode, 301, value)
      }
    })

    it('301 for the value http, regardless of other forwarding headers', async () => {
      const headers = {
        'x-forwarded-proto': 'http',
        forwarded: 'proto=https',
        'x-forwarded-ssl': 'on',
        'x-url-scheme': 'https',
      }
      assert.equal((await send(mounted, { url: '/things', headers })).statusCode, 301)
    })

    it('proxyList throws for an entry that is neither an address nor a CIDR', () => {
      for (const entry of [
        'true',
        '*',
        'localhost',
        '',
        '10.0.0.0/33',
        '10.0.0.0/',
        '10.0.0.0/8/8',
        '10.0.0.0/-1',
        '10.0.0.0/x',
      ]) {
        assert.throws(() => proxyList([entry]), Error, entry)
      }
    })
  })
})
