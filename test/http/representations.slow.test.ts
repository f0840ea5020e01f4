import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { gunzipSync } from 'node:zlib'
import type { Database } from '../../src/storage/database.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

/** The request headers that select a cacheable response. */
const variants = 'Accept, Accept-Encoding, Authorization, X-API-Key'

forEachEngine((engine) => {
  describe('representations of the resources', () => {
    let db: Database
    let service: TestApp
    before(async () => {
      db = await engine.database()
      service = await testApp(db)
      await service.send({ method: 'POST', url: '/users', payload: longUser('a') })
      for (let at = 0; at < 20; at++) {
        await service.send({ method: 'POST', url: '/products', payload: { name: `Pen ${at}`.repeat(10), price: at } })
      }
    })
    after(async () => {
      await service.app.close()
      await db.close()
    })

    /** Returns a user whose representation is long enough to be compressed. */
    const longUser = (letter: string) => ({
      ...{ name: letter.repeat(200), email: `${letter.repeat(200)}@plinth.test` },
      ...{ address: letter.repeat(500), phone: '1'.repeat(32) },
    })
    const full = 'users:read users:read:full users:write products:write reports:read webhooks:read'
    const gzip = { 'accept-encoding': 'gzip' }
    const get = (url: string, headers: Record<string, string> = {}) => service.send({ url, headers, scopes: full })
    const user = '/users/1'

    it('200 with the same content but a different strong tag when compressed (RFC 9110 §8.8.3.3)', async () => {
      const [plain, packed] = [await get(user), await get(user, gzip)]
      assert.deepEqual([plain.headers.etag, packed.headers.etag], ['"1"', '"1-gzip"'])
      assert.deepEqual(JSON.parse(gunzipSync(packed.rawPayload).toString()), plain.json())
    })

    it('200 with a different tag for a caller that may see fewer fields, compressed or not (T-HTTP-16)', async () => {
      const reduced = await service.send({ url: user, headers: gzip, scopes: 'users:read' })
      assert.match(String(reduced.headers.etag), /^"1\.reduced(-gzip)?"$/)
      assert.equal((await get(user, { ...gzip, 'if-none-match': String(reduced.headers.etag) })).statusCode, 200)
    })

    it('304 with the tag that the client sent; 200 for a gzip tag without Accept-Encoding', async () => {
      for (const tag of ['"1"', '"1-gzip"']) {
        const answer = await get(user, { ...gzip, 'if-none-match': tag })
        assert.deepEqual([answer.statusCode, answer.headers.etag], [304, tag])
        assert.equal(answer.headers.vary, variants)
      }
      assert.equal((await get('/products/1', { ...gzip, 'if-none-match': '"1-gzip"' })).headers.etag, '"1-gzip"')
      assert.equal((await get(user, { 'if-none-match': '"1-gzip"' })).statusCode, 200)
    })

    it('a write treats a tag with a coding suffix, such as "1-gzip", as the tag of the revision (T-RACE-01)', async () => {
      const put = (tag: string, price: number) =>
        service.send({
          method: 'PUT',
          url: '/products/2',
          payload: { name: 'Pen', price },
          headers: { 'if-match': tag },
        })
      assert.equal((await put('"7-gzip"', 5)).statusCode, 412)
      const changed = await put('"1-gzip"', 6)
      assert.deepEqual([changed.statusCode, changed.headers.etag], [200, '"2"'])
      assert.equal((await put('"1-gzip"', 7)).statusCode, 412)
      assert.equal((await put('W/"2-gzip"', 7)).statusCode, 412)
      assert.equal((await put('"2-br"', 8)).statusCode, 200)
      const remove = (tag: string) =>
        service.send({ method: 'DELETE', url: '/products/2', headers: { 'if-none-match': tag } })
      assert.equal((await remove('"3-gzip"')).statusCode, 412)
      assert.equal((await remove('"2-gzip"')).statusCode, 204)
    })

    it('200 with the same weak tag for a list, compressed or not', async () => {
      const [plain, packed] = [await get('/products'), await get('/products', gzip)]
      assert.equal(packed.headers['content-encoding'], 'gzip')
      assert.equal(packed.headers.etag, plain.headers.etag)
      assert.deepEqual(JSON.parse(gunzipSync(packed.rawPayload).toString()), plain.json())
      assert.equal((await get('/products', { ...gzip, 'if-none-match': String(plain.headers.etag) })).statusCode, 304)
    })

    it('the webhook secret, write responses and errors are not compressed', async () => {
      const packing = { ...gzip, accept: 'application/json' }
      const written = await service.send({
        ...{ method: 'PUT', url: user, headers: packing, scopes: full },
        payload: longUser('b'),
      })
      for (const answer of [written, await get('/api/webhooks/secret', packing), await get('/users/99', packing)]) {
        assert.equal(answer.headers['content-encoding'], undefined)
        assert.equal(answer.headers['cache-control'], 'no-store')
      }
    })

    const kept: [path: string, vary: string][] = [
      ['/products', `Prefer, ${variants}`],
      ['/products/1', variants],
      ['/openapi.json', variants],
      ['/problems/auth-required', variants],
      ['/users', `Prefer, ${variants}`],
      [user, variants],
      ['/api/reports', variants],
      ['/api/webhooks', variants],
      ['/v1/nothing', 'Accept'],
    ]
    for (const [path, vary] of kept) {
      it(`responses at ${path} have Vary: ${vary}`, async () => assert.equal((await get(path)).headers.vary, vary))
    }

    for (const path of kept.map(([path]) => path).filter((path) => !/problems|nothing/.test(path))) {
      it(`406 at ${path} for media types that the path does not support`, async () => {
        const answer = await get(path, { accept: 'text/html, application/xml;q=0.9' })
        assert.deepEqual([answer.statusCode, answer.json().errorCode], [406, 'NOT_ACCEPTABLE'])
      })
    }

    it('200 from health checks regardless of Accept', async () => {
      for (const url of ['/livez', '/readyz']) assert.equal((await get(url, { accept: 'text/html' })).statusCode, 200)
    })
  })
})
