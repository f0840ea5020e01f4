import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { baseUrl, type Mounted, mount, send, sendRaw } from './support.ts'

const config = { scope: 'public' }
const hsts = 'max-age=31536000; includeSubDomains'

describe('requestIntegrity', () => {
  let mounted: Mounted
  before(async () => {
    mounted = await mount(['requestIntegrity', 'methods'], (app) => {
      app.get('/things', { config }, async () => ({ name: 'Pen' }))
      app.post('/things', { config }, async () => ({}))
    })
  })
  after(() => mounted.app.close())

  const request = (line: string, ...headers: string[]) =>
    sendRaw(mounted, [line, 'X-Forwarded-Proto: https', 'Connection: close', ...headers])
  const status = async (...lines: [string, ...string[]]) => (await request(...lines)).status

  describe('the request target (RFC 9112 §3.2)', () => {
    it('200 for an absolute-form target with the service’s origin, whatever the Host header says', async () => {
      for (const target of [`${baseUrl}/things`, 'HTTPS://Plinth.TEST/things?x=1']) {
        assert.equal(await status(`GET ${target} HTTP/1.1`, 'Host: other.test'), 200, target)
      }
    })

    it('400 for an absolute-form target with any other origin (T-HTTP-04)', async () => {
      const others = ['https://evil.test/things', 'http://plinth.test/things', `${baseUrl}.evil.test/things`]
      for (const target of [
        ...others,
        `${baseUrl}:444/things`,
        'https://user@plinth.test/things',
        'ftp://plinth.test/',
      ]) {
        assert.equal(await status(`GET ${target} HTTP/1.1`, 'Host: plinth.test'), 400, target)
      }
    })

    it('404 or 405 for an absolute-form target with an unknown path or for an unsupported method', async () => {
      assert.equal(await status(`GET ${baseUrl} HTTP/1.1`, 'Host: plinth.test'), 404)
      const answer = await request(`DELETE ${baseUrl}/things HTTP/1.1`, 'Host: plinth.test')
      assert.deepEqual([answer.status, answer.headers.allow], [405, 'GET, HEAD, OPTIONS, POST'])
    })

    it('204 with all methods in Allow for OPTIONS *, 400 for GET *', async () => {
      const answer = await request('OPTIONS * HTTP/1.1', 'Host: plinth.test')
      assert.deepEqual([answer.status, answer.headers.allow], [204, 'GET, HEAD, OPTIONS, POST'])
      assert.equal(await status('GET * HTTP/1.1', 'Host: plinth.test'), 400)
    })

    it('400 for a query that does not decode as UTF-8 (RFC 3986 §2.1)', async () => {
      for (const query of ['x=%ff', 'x=%zz', 'x=%', '%c3=1', 'x=%ed%a0%80', 'y=1&x=%2']) {
        const answer = await send(mounted, { url: `/things?${query}` })
        assert.deepEqual([answer.statusCode, answer.json().errorCode], [400, 'INVALID_INPUT'], query)
      }
      for (const query of ['x=%C3%A4%25', 'x=a+b', 'x=ä', '?', 'x=%20&%20']) {
        assert.equal((await send(mounted, { url: `/things?${query}` })).statusCode, 200, query)
      }
    })

    it('200 for a target of up to 8 KiB, 414 URI_TOO_LONG for a longer one (T-HTTP-05)', async () => {
      const url = (length: number) => '/things?x='.padEnd(length, 'x')
      assert.equal((await send(mounted, { url: url(8_191) })).statusCode, 200)
      assert.equal((await send(mounted, { url: url(8_192) })).statusCode, 200)
      const answer = await send(mounted, { url: url(8_193) })
      assert.deepEqual([answer.statusCode, answer.json().errorCode], [414, 'URI_TOO_LONG'])
    })
  })

  describe('Host', () => {
    it('200 for a host name or address, with or without a port, and for HTTP/1.0 without Host', async () => {
      for (const host of ['plinth.test', 'plinth.test:8443', '127.0.0.1', '[::1]:8443', 'a']) {
        assert.equal(await status('GET /things HTTP/1.1', `Host: ${host}`), 200, host)
      }
      assert.equal(await status('GET /things HTTP/1.0'), 200)
    })

    it('400 for a value that is empty or not a host (T-HTTP-02)', async () => {
      for (const host of ['', 'a b', 'a/b', 'user@a', 'a:b', 'a:1:2', '[::1', 'http://a']) {
        assert.equal(await status('GET /things HTTP/1.1', `Host: ${host}`), 400, host)
      }
    })
  })

  describe('header fields', () => {
    it('200 for up to 100 fields, 431 HEADERS_TOO_LARGE for more (T-HTTP-05)', async () => {
      const fields = (count: number) => Array.from({ length: count }, (_, at) => `X-${at}: 1`)
      assert.equal(await status('GET /things HTTP/1.1', 'Host: a', ...fields(97)), 200)
      const answer = await request('GET /things HTTP/1.1', 'Host: a', ...fields(98))
      assert.deepEqual([answer.status, JSON.parse(answer.body).errorCode], [431, 'HEADERS_TOO_LARGE'])
    })

    it('400 for chunked coding in HTTP/1.0, 501 for unsupported transfer codings (RFC 9112 §6.1)', async () => {
      assert.equal(await status('POST /things HTTP/1.0', 'Host: a', 'Transfer-Encoding: chunked'), 400)
      const answer = await request('POST /things HTTP/1.1', 'Host: a', 'Transfer-Encoding: gzip, chunked')
      assert.deepEqual([answer.status, JSON.parse(answer.body).errorCode], [501, 'NOT_IMPLEMENTED'])
      assert.equal(answer.headers.connection, 'close')
    })
  })

  describe('how often a header may be sent', () => {
    const get = (...headers: string[]) => request('GET /things HTTP/1.1', ...headers)

    it('200 if each header is sent once', async () => {
      const answer = await get('Host: plinth.test', 'Authorization: Bearer a')
      assert.equal(answer.status, 200)
      assert.equal(answer.body, '{"name":"Pen"}')
    })

    it('400 for two Host lines, even if they are equal (T-HTTP-02)', async () => {
      for (const second of ['Host: evil.test', 'host: plinth.test', 'HOST:plinth.test']) {
        const answer = await get('Host: plinth.test', second)
        assert.equal(answer.status, 400, second)
        assert.equal(JSON.parse(answer.body).errorCode, 'INVALID_INPUT')
        assert.equal(answer.headers['strict-transport-security'], hsts)
      }
    })

    it('400 without Host (T-HTTP-02)', async () => {
      assert.equal((await get()).status, 400)
    })

    it('400 for two Authorization lines (T-HTTP-03)', async () => {
      const answer = await get('Host: plinth.test', 'Authorization: Bearer a', 'X-Other: 1', 'authorization: Bearer b')
      assert.equal(answer.status, 400)
      assert.match(JSON.parse(answer.body).detail, /authorization/)
    })

    it('400 for two Content-Type or Content-Length lines (T-HTTP-03)', async () => {
      for (const name of ['Content-Type: application/json', 'Content-Length: 0']) {
        assert.equal((await get('Host: plinth.test', name, name)).status, 400, name)
      }
    })

    it('400 for two lines of any other single-value header', async () => {
      for (const name of [
        'If-Modified-Since',
        'If-Unmodified-Since',
        'If-Range',
        'Origin',
        'X-API-Key',
        'Idempotency-Key',
      ])
        assert.equal((await get('Host: plinth.test', `${name}: a`, `${name.toLowerCase()}: b`)).status, 400, name)
    })

    it('200 for two lines of a list-valued header', async () => {
      for (const name of [
        'If-None-Match: "1"',
        'Accept: */*',
        'Accept-Encoding: gzip',
        'Prefer: a',
        'X-Forwarded-For: a',
      ])
        assert.equal((await get('Host: plinth.test', name, name)).status, 200, name)
    })

    it('200 for a header named __proto__, without modifying a prototype (T-HTTP-09)', async () => {
      const before = Reflect.ownKeys(Object.prototype)
      assert.equal((await get('Host: plinth.test', '__proto__: x', '__proto__: y')).status, 200)
      assert.deepEqual(Reflect.ownKeys(Object.prototype), before)
    })
  })
})
