import assert from 'node:assert/strict'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { request } from 'undici'
import type { Database } from '../../src/storage/database.ts'
import { type TestApp, testApp, token } from '../support/app.ts'
import { type CacheName, cacheMissing, type SharedCache, sharedCache } from '../support/caches.ts'
import { onSqlite } from '../support/engines.ts'

const hour = 3_600
const rules = {
  general: { calls: 5_000, seconds: hour },
  anonymous: { calls: 700, seconds: hour },
  quotas: { requests: 90_000, reports: null },
}
/** Each key has its own rate limit and quota, so that the headers show which client a response is for. */
const keys: Record<string, { rate: string; quota: number }> = {
  one: { rate: `1100/${hour}`, quota: 1_111 },
  two: { rate: `2200/${hour}`, quota: 2_222 },
}
const readApiKey = (text: string) => (keys[text] ? { id: text, ...keys[text] } : null)

interface Client {
  headers: Record<string, string>
  /** The expected X-RateLimit-Limit; `quota` is the expected X-Quota-Limit. */
  rate: string
  quota: string
}

const clients: Record<string, Client> = {
  'the first token': { headers: { authorization: `Bearer ${token('', 'cli_1')}` }, rate: '5000', quota: '90000' },
  'the second token': { headers: { authorization: `Bearer ${token('', 'cli_2')}` }, rate: '5000', quota: '90000' },
  'the first key': { headers: { 'x-api-key': 'one' }, rate: '1100', quota: '1111' },
  'the second key': { headers: { 'x-api-key': 'two' }, rate: '2200', quota: '2222' },
  'a token with a key': {
    headers: { authorization: `Bearer ${token('', 'cli_3')}`, 'x-api-key': 'three' },
    rate: '5000',
    quota: '90000',
  },
}
const nobody = { headers: {} }

const paths = ['/products', '/products/1', '/v2/books?sort=title', '/openapi.json', '/docs', '/problems/auth-required']

for (const name of ['nginx', 'varnish'] as const satisfies CacheName[]) {
  onSqlite((engine) => {
    describe(`${name} as a shared cache`, { skip: cacheMissing(name) }, () => {
      let db: Database
      let service: TestApp
      let cache: SharedCache
      let arrived = 0
      before(async () => {
        db = await engine.database()
        service = await testApp(db, { rules, readApiKey, now: Date.now })
        await service.send({ method: 'POST', url: '/products', payload: { name: 'Pen', price: 1 } })
        await service.send({ method: 'POST', url: '/books', payload: { title: 'Emma', author: 'Jane Austen' } })
        await service.app.listen({ host: '127.0.0.1', port: 0 })
        service.app.server.on('request', () => arrived++)
        cache = await sharedCache(name, (service.app.server.address() as AddressInfo).port)
      })
      after(async () => {
        await cache?.stop()
        await service.app.close()
        await db.close()
      })

      const get = async (path: string, { headers }: Pick<Client, 'headers'>, more: Record<string, string> = {}) => {
        const before = arrived
        const sent = { 'x-forwarded-proto': 'https', ...headers, ...more }
        const answer = await request(cache.base + path, { headers: sent })
        await answer.body.dump()
        return { ...answer, reached: arrived - before }
      }
      const remaining: Record<string, number> = {}

      /**
       * Asserts that the response was just created for this client: it reports the client's own limits, with one call
       * fewer left than before.
       */
      async function isOwn(who: string, path: string, more: Record<string, string> = {}): Promise<void> {
        const client = clients[who] as Client
        const { headers, reached, statusCode } = await get(path, client, more)
        const about = `${who} at ${path}`
        // The cache may or may not forward a precondition to the service.
        assert.ok(statusCode === 200 || (statusCode === 304 && more['if-none-match']), `${statusCode} ${about}`)
        assert.deepEqual([headers['x-ratelimit-limit'], headers['x-quota-limit']], [client.rate, client.quota], about)
        assert.equal(reached, 1, about)
        const left = Number(headers['x-quota-remaining'])
        assert.equal(left, (remaining[who] ?? Number(client.quota)) - 1, about)
        remaining[who] = left
      }

      for (const path of paths) {
        it(`200 at ${path} with the caller's own limits, even after requests from other clients`, async () => {
          const names = Object.keys(clients)
          for (const who of [...names, ...names]) await isOwn(who, path)
          await get(path, nobody)
          for (const who of [...names.toReversed(), ...names]) await isOwn(who, path)
        })

        it(`200 from the cache, without X-Quota-Limit, at ${path} for callers without credentials`, async () => {
          await get(path, nobody)
          const { headers, reached, statusCode } = await get(path, nobody)
          assert.deepEqual([statusCode, reached], [200, 0])
          assert.deepEqual([headers['x-ratelimit-limit'], headers['x-quota-limit']], ['700', undefined])
          assert.match(String(headers['cache-control']), /^public, max-age=\d+/)
        })

        it(`a current If-None-Match at ${path}: 200 or 304 with the caller’s own limits, or 304 from the cache without credentials`, async () => {
          const etag = String((await get(path, nobody)).headers.etag)
          for (const who of Object.keys(clients)) await isOwn(who, path, { 'if-none-match': etag })
          const { reached, statusCode, headers } = await get(path, nobody, { 'if-none-match': etag })
          assert.deepEqual([statusCode, reached, headers['x-quota-limit']], [304, 0, undefined])
        })
      }

      it('401 for an invalid token at a path whose response is cached', async () => {
        await get('/products', nobody)
        assert.equal((await get('/products', { headers: { authorization: 'Bearer wrong' } })).statusCode, 401)
        assert.equal((await get('/products', nobody)).reached, 0)
      })
    })
  })
}
