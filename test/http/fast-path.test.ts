import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, describe, it } from 'node:test'
import { operator } from '../../src/audit/chain.ts'
import { builtIn } from '../../src/catalog/service.ts'
import type { Verify } from '../../src/http/policies/authenticate.ts'
import { drainable } from '../../src/http/server/draining.ts'
import { canSendWhole } from '../../src/http/server/raw-headers.ts'
import { createApiKey, revokeApiKey } from '../../src/oauth/api-keys/api-keys.ts'
import { apiKeyReader } from '../../src/oauth/api-keys/lookup.ts'
import { createClient } from '../../src/oauth/clients/clients.ts'
import { revokeClient } from '../../src/oauth/clients/update.ts'
import { tokenVerifier } from '../../src/oauth/tokens/verify.ts'
import type { Database } from '../../src/storage/database.ts'
import { localCertificates } from '../../src/tls/certificates.ts'
import { kid, own, signed, start } from '../oauth/forgery.ts'
import { issuer, sealer } from '../oauth/support.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { onSqlite } from '../support/engines.ts'
import { type KeepAliveClient, keepAliveClient } from '../support/keep-alive.ts'
import { type ServicePair, servicePair } from '../support/service-pair.ts'
import { drivenTimers, later } from '../support/timers.ts'

const scopes = ['users:read', 'users:write', 'products:write', 'books:write']
const bearer = 'Authorization: Bearer reader'
const get = (path: string, ...fields: string[]) => text('GET', path, '1.1', fields)
const text = (method: string, path: string, version: string, fields: string[]) =>
  `${method} ${path} HTTP/${version}\r\n${['Host: plinth.test', 'X-Forwarded-Proto: https', ...fields].join('\r\n')}\r\n\r\n`
const statusOf = (response: string | undefined) => Number(response?.slice(9, 12))
const portOf = ({ app }: Pick<TestApp, 'app'>) => (app.server.address() as { port: number }).port

describe('the fast path', () => {
  it('works with this version of Node.js', () => {
    assert.equal(canSendWhole, true)
  })
})

onSqlite((engine) => {
  describe('the fast path', () => {
    let pair: ServicePair
    before(async () => {
      const quotas = { requests: 100_000, reports: null }
      const rules = { general: { calls: 10_000, seconds: 60 }, anonymous: { calls: 10_000, seconds: 60 }, quotas }
      pair = await servicePair(engine, { rules, corsOrigins: ['https://app.test'] })
      pair.tokens.set('reader', scopes)
      for (const n of [1, 2, 3]) {
        await pair.inject({
          method: 'POST',
          url: '/products',
          token: 'reader',
          payload: { name: `Pén ${n}`, price: n },
        })
      }
      const user = { name: 'Ada', email: 'ada@example.com' }
      await pair.inject({ method: 'POST', url: '/users', token: 'reader', payload: user })
    })
    after(() => pair.close())

    /** Sends a request to both services, whose responses must be equal. Returns true if the fast path responded. */
    const isFast = async (request: string, connection = 1): Promise<boolean> => {
      const before = pair.fast.verifier.count()
      const [fast, full] = await pair.send(connection, request)
      assert.deepEqual(fast, full)
      return pair.fast.verifier.count() === before
    }
    const areFast = async (...requests: string[]) => {
      const found = []
      for (const request of requests) found.push(await isFast(request))
      return found
    }
    const put = (id: number, price: number) =>
      pair.inject({ method: 'PUT', url: `/products/${id}`, token: 'reader', payload: { name: `Pén ${id}`, price } })

    it('200 for a cached row, from the second request with the same head', async () => {
      const requests = [1, 1, 2, 2, 1].map((id) => get(`/products/${id}`, bearer))
      assert.deepEqual(await areFast(...requests), [false, true, false, true, true])
    })

    it('200 for a cached row on a new connection', async () => {
      assert.equal(await isFast(get('/products/1', bearer), 2), true)
    })

    it('200 with the new content after a change, without reading the row again', async () => {
      await put(1, 7)
      assert.deepEqual(await areFast(get('/products/1', bearer), get('/products/1', bearer)), [true, true])
      const [[response]] = await pair.send(1, get('/products/1', bearer))
      assert.match(String(response), /\r\netag: "2"\r\n.*"price":7/s)
    })

    it('200 with the last of several changes in one commit', async () => {
      for (let round = 0; round < 20; round++) {
        const payload = { price: round }
        const patch = () => pair.inject({ method: 'PATCH', url: '/products/1', token: 'reader', payload })
        await Promise.all([put(1, 100 + round), patch(), put(1, 200 + round), patch()])
        await isFast(get('/products/1', bearer))
        const [[response]] = await pair.send(1, get('/products/1', bearer))
        assert.match(String(response), new RegExp(`"price":${round},`))
      }
    })

    it('404 after a change and a deletion in one commit', async () => {
      const product = { method: 'POST', url: '/products', token: 'reader', payload: { name: 'Pén', price: 1 } } as const
      await pair.inject(product)
      const url = '/products/4'
      await areFast(get(url, bearer), get(url, bearer))
      const payload = { name: 'Pén', price: 2 }
      await Promise.all([
        pair.inject({ method: 'PUT', url, token: 'reader', payload }),
        pair.inject({ method: 'DELETE', url, token: 'reader' }),
      ])
      const [[response]] = await pair.send(1, get(url, bearer))
      assert.equal(statusOf(response), 404)
    })

    it('404 after a deletion', async () => {
      await areFast(get('/products/3', bearer), get('/products/3', bearer))
      await pair.inject({ method: 'DELETE', url: '/products/3', token: 'reader' })
      const [[response]] = await pair.send(1, get('/products/3', bearer))
      assert.equal(statusOf(response), 404)
    })

    it('304 for the current entity tag; any other value is left to the policies', async () => {
      const ask = (tag: string) => get('/products/2', bearer, `If-None-Match: ${tag}`)
      assert.deepEqual(await areFast(ask('"1"'), ask('"1"'), ask('"9"'), ask('*')), [false, true, false, false])
      await put(2, 8)
      assert.deepEqual(await areFast(ask('"1"'), ask('"1"')), [false, false])
      const [[response]] = await pair.send(1, ask('"1"'))
      assert.equal(statusOf(response), 200)
    })

    it('200 and 304 for a cached page of a list, until the table changes', async () => {
      const page = get('/v2/products?limit=1', bearer)
      assert.deepEqual(await areFast(page, page), [false, true])
      const [[response]] = await pair.send(1, page)
      const tag = /\r\netag: (.*)\r\n/.exec(String(response))?.[1]
      const again = get('/v2/products?limit=1', bearer, `If-None-Match: ${tag}`)
      assert.deepEqual(await areFast(again, again), [false, true])
      await put(2, 9)
      assert.deepEqual(await areFast(page, page), [false, true])
    })

    it('uses the request id of the client if it is valid', async () => {
      for (const id of ['request-0001', 'request-0002', 'bad id', 'request-0003']) {
        await areFast(get('/products/1', bearer, `X-Request-Id: ${id}`))
      }
      assert.equal(await isFast(get('/products/1', bearer, 'X-Request-Id: request-0004')), true)
    })

    it('logs the trace id of each request, if its trace context is valid', async () => {
      const ids = ['0af7651916cd43dd8448eb211c80319c', '4bf92f3577b34da6a3ce929d0e0e4736']
      const traces = [...ids.map((id) => `00-${id}-b7ad6b7169203331-01`), 'invalid']
      const requests = traces.map((trace, at) =>
        get('/products/1', bearer, `traceparent: ${trace}`, `tracestate: a=${at}`),
      )
      await isFast(requests[0] as string)
      pair.lines()
      assert.deepEqual(await areFast(...requests), [true, true, true])
      const [fast, full] = pair.lines()
      assert.deepEqual(fast, full)
      assert.deepEqual(
        fast.map((line) => (line as { traceId?: string }).traceId),
        [...ids, undefined],
      )
    })

    it('serves requests with an API key, even an unknown one', async () => {
      for (const key of ['key-one', 'nothing']) {
        const request = get('/products/1', bearer, `X-API-Key: ${key}`)
        assert.deepEqual(await areFast(request, request, request), [false, false, true])
        pair.forget()
        assert.deepEqual(await areFast(request, request), [false, true])
      }
    })

    it('responds to anonymous requests and to requests from other origins exactly as the policies do', async () => {
      for (const fields of [[], ['Origin: https://app.test'], ['Origin: https://evil.test']]) {
        await areFast(...Array.from({ length: 3 }, () => get('/products/1', ...fields)))
      }
    })

    const left = {
      'If-Match': get('/products/1', bearer, 'If-Match: *'),
      'If-Modified-Since': get('/products/1', bearer, 'If-Modified-Since: Sun, 01 Mar 2026 12:00:00 GMT'),
      'If-Unmodified-Since': get('/products/1', bearer, 'If-Unmodified-Since: Sun, 01 Mar 2026 12:00:00 GMT'),
      Range: get('/products/1', bearer, 'Range: bytes=0-1'),
      Prefer: get('/products?limit=1', bearer, 'Prefer: count=exact'),
      'Content-Length': get('/products/1', bearer, 'Content-Length: 0'),
      'Transfer-Encoding': `${get('/products/1', bearer, 'Transfer-Encoding: chunked')}0\r\n\r\n`,
      Expect: get('/products/1', bearer, 'Expect: 100-continue'),
      Upgrade: get('/products/1', bearer, 'Connection: upgrade', 'Upgrade: h2c'),
      'Connection: close': get('/products/1', bearer, 'Connection: close'),
      'an unknown field': get('/products/1', bearer, 'X-Unknown: 1'),
      'a repeated field': get('/products/1', bearer, 'Accept: */*', 'Accept: */*'),
      'HTTP/1.0': text('GET', '/products/1', '1.0', [bearer, 'Connection: keep-alive']),
      HEAD: text('HEAD', '/products/1', '1.1', [bearer]),
      'a query for a row': get('/products/1?fields=id', bearer),
      'a token in the query': get('/products?limit=1&access_token=x', bearer),
      'an id with leading zeros': get('/products/01', bearer),
      'a resource whose fields depend on the caller': get('/users/1', bearer),
      'an expired token': get('/products/1', 'Authorization: Bearer expired'),
    }
    for (const [title, request] of Object.entries(left)) {
      it(`leaves a request to the policies because of ${title}`, async () => {
        assert.deepEqual(await areFast(request, request, request), [false, false, false])
      })
    }

    it('leaves compressed pages to the policies, but serves uncompressed ones', async () => {
      const long = { title: 'T'.repeat(100), author: 'A'.repeat(100) }
      for (let n = 0; n < 6; n++) await pair.inject({ method: 'POST', url: '/books', token: 'reader', payload: long })
      const ask = (path: string) => get(path, bearer, 'Accept-Encoding: br')
      const all = ['/books?limit=5', '/books?limit=5', '/books?limit=1', '/books?limit=1'].map(ask)
      assert.deepEqual(await areFast(...all), [false, false, false, true])
    })

    it('responds to pipelined requests exactly as the policies do, even if the first is malformed', async () => {
      const good = get('/products/1', bearer)
      await isFast(good)
      const [fast, full] = await pair.send(1, good, good, good)
      assert.deepEqual([fast, fast.length], [full, 3])
      const [broken, expected] = await pair.send(1, get('/products/1', 'Host: twice'), good)
      assert.deepEqual(broken, expected)
      assert.equal(statusOf(broken[0]), 400)
    })

    it('writes the same log lines and metrics as the policies', async () => {
      const [fast, full] = pair.lines()
      assert.deepEqual(fast, full)
      const counts = async ({ service }: ServicePair['fast']) => {
        const { body } = await service.send({ url: '/metrics', scopes: 'admin' })
        return body.match(/^plinth_(http_requests_total|client_requests_top|http_request_duration_seconds_count).*$/gm)
      }
      assert.deepEqual(await counts(pair.fast), await counts(pair.full))
    })
  })

  describe('the fast path under limits', () => {
    let pair: ServicePair
    before(async () => {
      const rules = { general: { calls: 100, seconds: 60 }, quotas: { requests: 300, reports: null } }
      pair = await servicePair(engine, { rules })
      pair.tokens.set('writer', scopes)
      await pair.inject({ method: 'POST', url: '/products', token: 'writer', payload: { name: 'Pen', price: 1 } })
    })
    after(() => pair.close())

    it('200 for exactly 100 of 500 parallel requests at a limit of 100', async () => {
      pair.tokens.set('parallel', scopes)
      const request = get('/products/1', 'Authorization: Bearer parallel')
      const clients = Array.from({ length: 50 }, () => keepAliveClient(pair.fast.port))
      const before = pair.fast.verifier.count()
      const send = async (client: KeepAliveClient) => {
        const statuses = []
        for (let n = 0; n < 10; n++) statuses.push(statusOf(await client.send(request)))
        return statuses
      }
      const statuses = (await Promise.all(clients.map(send))).flat()
      for (const client of clients) client.close()
      assert.deepEqual(Object.groupBy(statuses, String)['200']?.length, 100)
      assert.deepEqual(new Set(statuses), new Set([200, 429]))
      assert.ok(pair.fast.verifier.count() - before < 480, 'the fast path served some of them')
    })

    it('403 above the quota, after exactly 300 requests in several rate-limit windows', async () => {
      pair.tokens.set('counted', scopes)
      const statuses = []
      for (let n = 0; n < 310; n++) {
        if (n % 90 === 0) pair.pass(61_000)
        const [fast, full] = await pair.send(1, get('/products/1', 'Authorization: Bearer counted'))
        assert.deepEqual(fast, full)
        statuses.push(statusOf(fast[0]))
      }
      assert.equal(statuses.indexOf(403), 300)
    })

    it('applies the limit of an API key for at most 30 seconds after the key is revoked', async () => {
      const { db, verifier } = pair.fast
      const clock = { now: start }
      const now = () => clock.now
      const store = { db, sealer, now, random: randomBytes, actor: operator }
      const { apiKey, key } = await createApiKey(store, { name: 'Batch', rate: '7/600' })
      const { read: readApiKey, flush } = apiKeyReader({ db, now, onError: assert.ifError })
      const rules = { general: { calls: 100, seconds: 600 } }
      const service = await testApp(db, { rules, readApiKey, verify: verifier.verify })
      await service.app.listen({ host: '127.0.0.1', port: 0 })
      const client = keepAliveClient(portOf(service))
      const ask = async () => {
        const response = await client.send(get('/products/1', 'Authorization: Bearer counted', `X-API-Key: ${key}`))
        const [, limit, left] = /x-ratelimit-limit: (\d+)\r\n.*x-ratelimit-remaining: (\d+)\r\n/s.exec(response) ?? []
        return [statusOf(response), Number(limit), Number(left)]
      }
      const before = verifier.count()
      const answers = []
      for (let n = 0; n < 6; n++) answers.push(await ask())
      assert.deepEqual(
        answers,
        [6, 5, 4, 3, 2, 1].map((left) => [200, 7, left]),
      )
      assert.ok(verifier.count() - before < 3)
      await revokeApiKey(store, apiKey.id)
      clock.now += 30_000
      assert.deepEqual(await ask(), [200, 100, 99])
      client.close()
      await service.app.close()
      // Records the key's last use now, because a timer would do it a minute later, after the database is closed.
      await flush()
    })

    it('200 for the delayed requests of a throttled client', async () => {
      const rules = { throttle: { calls: 1, seconds: 1, burst: 3 } }
      const service = await testApp(pair.fast.db, {
        rules,
        later: (_ms, run) => later(0, run),
        verify: pair.fast.verifier.verify,
      })
      await service.app.listen({ host: '127.0.0.1', port: 0 })
      const client = keepAliveClient(portOf(service))
      const responses = []
      for (let n = 0; n < 4; n++) {
        const pending = client.send(get('/products/1', 'Authorization: Bearer counted'))
        if (n === 3) service.clock.now += 2_000
        responses.push(await pending)
      }
      assert.deepEqual(responses.map(statusOf), [200, 200, 200, 200])
      client.close()
      await service.app.close()
    })
  })

  describe('the fast path and tokens', () => {
    let db: Database
    let service: TestApp
    let client: KeepAliveClient
    let now = start
    let policies = 0
    const publicKeys = new Map([[kid, own.publicKey]])
    const revocations = { count: 0 }
    before(async () => {
      db = await engine.database()
      const known = tokenVerifier({ issuer, audience: issuer, db, now: () => now, keys: { publicKeys }, revocations })
      const counted = (token: string) => {
        policies++
        return known(token)
      }
      const verify: Verify = Object.assign(counted, { known: known.known })
      service = await testApp(db, { verify, revocations, baseUrl: issuer, now: () => now, sealer, publicRead: false })
      await service.app.listen({ host: '127.0.0.1', port: 0 })
      client = keepAliveClient(portOf(service))
      for (const id of ['alpha', 'beta', 'gamma', 'delta']) {
        const grants = ['client_credentials']
        await createClient(db, sealer, builtIn.scopes, { id, name: id, scopes: ['products:write', 'admin'], grants })
      }
      const headers = { authorization: `Bearer ${await tokenOf('delta')}` }
      await service.send({ method: 'POST', url: '/products', headers, payload: { name: 'Pen', price: 1 } })
    })
    beforeEach(() => publicKeys.set(kid, own.publicKey))
    after(async () => {
      client.close()
      await service.app.close()
      await db.close()
    })

    const tokenOf = (id: string, change = {}) =>
      signed({
        sub: id,
        client_id: id,
        scope: 'products:write',
        jti: `${id} ${now}`,
        iat: now / 1_000,
        exp: now / 1_000 + 900,
        ...change,
      })
    /** Sends a request until the fast path responds to it; returns a function that sends the request again. */
    const remembered = async (token: string) => {
      const request = get('/products/1', `Authorization: Bearer ${token}`)
      const ask = async () => statusOf(await client.send(request))
      await ask()
      await ask()
      const before = policies
      assert.deepEqual([await ask(), policies - before], [200, 0])
      return ask
    }

    it('200 until 30 seconds after the token expires, then 401', async () => {
      const ask = await remembered(await tokenOf('alpha', { exp: now / 1_000 + 10 }))
      now += 39_000
      assert.equal(await ask(), 200)
      now += 1_000
      assert.equal(await ask(), 401)
    })

    it('401 for the next request after the client was revoked by this process', async () => {
      const ask = await remembered(await tokenOf('beta'))
      const headers = { authorization: `Bearer ${await tokenOf('delta', { scope: 'admin' })}` }
      const { statusCode } = await service.send({ method: 'DELETE', url: '/api/clients/beta', headers })
      assert.deepEqual([statusCode, await ask()], [204, 401])
    })

    it('401 at most 30 seconds after another process revoked the client', async () => {
      const ask = await remembered(await tokenOf('gamma'))
      await revokeClient({ db, sealer, now: () => now, actor: operator }, 'gamma')
      now += 30_000
      assert.equal(await ask(), 401)
    })

    it('401 at most 30 seconds after the signing key was withdrawn', async () => {
      const ask = await remembered(await tokenOf('delta'))
      publicKeys.delete(kid)
      now += 30_000
      assert.equal(await ask(), 401)
    })

    it('verifies the token again after `revocations.count` has changed', async () => {
      const ask = await remembered(await tokenOf('delta'))
      revocations.count++
      const before = policies
      assert.deepEqual([await ask(), policies - before], [200, 1])
    })
  })

  describe('the fast path', () => {
    let db: Database
    before(async () => {
      db = await engine.database()
    })
    after(() => db.close())

    /** Starts a service with a row that anyone can read, and reads the row until the fast path serves it. */
    const started = async (settings: Parameters<typeof testApp>[1]) => {
      const service = await testApp(db, settings)
      await service.send({ method: 'POST', url: '/products', payload: { name: 'Pen', price: 1 } })
      await service.app.listen({ host: '127.0.0.1', port: 0 })
      const client = keepAliveClient(portOf(service))
      const ask = () => client.send(get('/products/1'))
      for (let n = 0; n < 3; n++) assert.equal(statusOf(await ask()), 200)
      return { ask, app: service.app, client }
    }

    it('200 over TLS', async () => {
      const folder = mkdtempSync(join(tmpdir(), 'plinth-fast-path-'))
      const pair = await servicePair(engine, { tls: await localCertificates(folder, [], Date.now) })
      pair.tokens.set('reader', scopes)
      await pair.inject({ method: 'POST', url: '/products', token: 'reader', payload: { name: 'Pen', price: 1 } })
      for (let n = 0; n < 5; n++) {
        const [fast, full] = await pair.send(1, get('/products/1', bearer))
        assert.deepEqual(fast, full)
        assert.match(String(fast), /^HTTP\/1\.1 200 .*\r\nstrict-transport-security: /s)
      }
      assert.equal(pair.full.verifier.count() - pair.fast.verifier.count(), 4)
      await pair.close()
      rmSync(folder, { recursive: true })
    })

    it('503 while reads are shed', async () => {
      const timers = drivenTimers()
      let delayMs = 0
      const measure = () => ({ delayMs, utilization: 1, cpuShare: 1 })
      const { ask, app, client } = await started({ overload: { measure, random: () => 0 }, later: timers.later })
      // The overload policy ignores its first two seconds.
      for (let n = 0; n < 10; n++) timers.pass(200)
      delayMs = 500
      for (let n = 0; n < 4; n++) timers.pass(200)
      assert.match(await ask(), /^HTTP\/1\.1 503 .*\r\nretry-after: 1\r\n/s)
      delayMs = 0
      for (let n = 0; n < 4; n++) timers.pass(200)
      assert.equal(statusOf(await ask()), 200)
      client.close()
      await app.close()
    })

    it('sends Connection: close while the service drains', async () => {
      const { ask, app, client } = await started({})
      const drain = drainable(app.server, { later, exclusively: null })
      drain.begin()
      assert.match(await ask(), /^HTTP\/1\.1 200 .*\r\nConnection: close\r\n/is)
      client.close()
      drain.cut()
      await app.close()
    })
  })
})
