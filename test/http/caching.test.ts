import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Problem } from '../../src/http/problems/problem.ts'
import { type Mounted, mount, send } from './support.ts'

describe('caching', () => {
  let mounted: Mounted
  before(async () => {
    mounted = await mount(['caching'], (app) => {
      for (const cache of ['public', 'private', 'none'] as const) {
        app.get(`/${cache}`, { config: { cache } }, async () => ({}))
        app.post(`/${cache}`, { config: { cache } }, async () => ({}))
        app.delete(`/${cache}`, { config: { cache } }, async () => {
          throw new Problem('ACCESS_DENIED', 'No')
        })
      }
      app.get('/unchanged', { config: { cache: 'public' } }, (_request, reply) => reply.code(304).send())
      app.get('/silent', async () => ({}))
      app.get('/broken', { config: { cache: 'public' } }, async () => {
        throw new Error('broken')
      })
      app.get('/special', { config: { cache: 'public' } }, async (_request, reply) => {
        reply.header('cache-control', 'no-cache')
        return {}
      })
    })
  })
  after(() => mounted.app.close())

  type Method = 'GET' | 'HEAD' | 'POST' | 'DELETE'
  const ask = async (url: string, method: Method = 'GET', credentials: Record<string, string> = {}) => {
    const { headers } = await send(mounted, { method, url, headers: credentials })
    return { control: headers['cache-control'], expires: headers.expires }
  }

  for (const method of ['GET', 'HEAD'] as const) {
    it(`cache 'public': shared caches may store the response to ${method} for a minute, with a matching Expires`, async () => {
      const control = 'public, max-age=60, must-revalidate'
      mounted.clock.now = Date.parse('2026-03-01T12:00:00.500Z')
      assert.deepEqual(await ask('/public', method), { control, expires: 'Sun, 01 Mar 2026 12:01:00 GMT' })
      mounted.clock.now += 600
      assert.deepEqual(await ask('/public', method), { control, expires: 'Sun, 01 Mar 2026 12:01:01 GMT' })
    })

    for (const name of ['authorization', 'x-api-key']) {
      it(`cache 'public': only the client may store the response to ${method} with ${name}, for a minute`, async () => {
        const control = 'private, max-age=60, must-revalidate'
        mounted.clock.now = Date.parse('2026-03-01T12:00:00.500Z')
        const sent = { [name]: 'Basic Zm9v' }
        assert.deepEqual(await ask('/public', method, sent), { control, expires: 'Sun, 01 Mar 2026 12:01:00 GMT' })
        const { control: without } = await ask('/public', method)
        assert.equal(without, 'public, max-age=60, must-revalidate')
        mounted.clock.now += 600
        assert.deepEqual(await ask('/public', method, sent), { control, expires: 'Sun, 01 Mar 2026 12:01:01 GMT' })
      })
    }

    it(`cache 'private': only the client may store the response to ${method}, and must revalidate it`, async () => {
      assert.deepEqual(await ask('/private', method), { control: 'private, no-cache', expires: undefined })
    })

    it(`cache 'none', or no cache setting: no-store for ${method}`, async () => {
      assert.deepEqual(await ask('/none', method), { control: 'no-store', expires: undefined })
      assert.deepEqual(await ask('/silent', method), { control: 'no-store', expires: undefined })
    })
  }

  it('a 304 has the Cache-Control, Vary and Expires of a 200, including Cache-Control: private if credentials are sent', async () => {
    for (const [credentials, control] of [
      [{}, 'public, max-age=60, must-revalidate'],
      [{ authorization: 'Basic Zm9v' }, 'private, max-age=60, must-revalidate'],
      [{ 'x-api-key': 'key' }, 'private, max-age=60, must-revalidate'],
    ] as const) {
      const answer = await send(mounted, { url: '/unchanged', headers: credentials })
      assert.deepEqual([answer.statusCode, answer.headers['cache-control']], [304, control])
      assert.equal(answer.headers.vary, 'Accept, Accept-Encoding, Authorization, X-API-Key')
      assert.equal(answer.headers.expires, 'Sun, 01 Mar 2026 12:01:01 GMT')
    }
  })

  it('no cache may store the response to a write', async () => {
    for (const url of ['/public', '/private', '/none']) {
      assert.deepEqual(await ask(url, 'POST'), { control: 'no-store', expires: undefined }, url)
    }
  })

  it('no cache may store an error, even on a public path', async () => {
    for (const url of ['/broken', '/nothing']) {
      assert.deepEqual(await ask(url), { control: 'no-store', expires: undefined }, url)
    }
    assert.deepEqual(await ask('/public', 'DELETE'), { control: 'no-store', expires: undefined })
  })

  it('a Cache-Control header set by the route is not overridden', async () => {
    assert.deepEqual(await ask('/special'), { control: 'no-cache', expires: undefined })
  })
})
