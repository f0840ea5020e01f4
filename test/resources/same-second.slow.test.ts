import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import { appOn, type TestApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

type Headers = Record<string, string>

const scopes =
  'admin reports:read reports:write webhooks:read webhooks:write users:read:full users:read users:write products:write books:write'
const title = { title: 'Emma', author: 'Jane Austen' }

/** The resources, each with a body that creates a row and a request that changes it. */
const subjects: { at: string; made: object; method: 'PUT' | 'PATCH' | 'POST'; body?: object; below?: string }[] = [
  { at: '/products', made: { name: 'Pen', price: 1 }, method: 'PUT', body: { name: 'Pen', price: 2 } },
  { at: '/books', made: title, method: 'PATCH', body: { genre: 'Novel' } },
  {
    at: '/users',
    made: { name: 'Ann', email: 'ann@b.test' },
    method: 'PUT',
    body: { name: 'An', email: 'ann@b.test' },
  },
  { at: '/api/reports', made: { reportType: 'books', format: 'csv' }, method: 'POST', below: '/cancel' },
  {
    ...{ at: '/api/webhooks', made: { event: '*', callbackUrl: 'http://127.0.0.1/a' } },
    ...{ method: 'PATCH', body: { description: 'x' } },
  },
]

forEachEngine((engine) => {
  describe('two revisions with the same date (RFC 9110 §8.8.2.2)', () => {
    const service = appOn(engine, { prefixes: [''] })
    const send = (method: 'GET' | 'HEAD' | 'PUT' | 'PATCH' | 'POST' | 'DELETE', url: string, more: object = {}) =>
      service.send({ method, url, scopes, ...more } as Parameters<TestApp['send']>[0])
    const status = async (method: Parameters<typeof send>[0], url: string, headers: Headers, payload?: object) =>
      (await send(method, url, { headers, ...(payload && { payload }) })).statusCode
    const dateOf = async (url: string) => String((await send('GET', url)).headers['last-modified'])

    beforeEach(() => {
      // Start each test at the beginning of a later second, so that tests do not affect each other.
      service.clock.now = (Math.floor(service.clock.now / 1_000) + 10) * 1_000
    })

    for (const { at, made, method, body, below = '' } of subjects) {
      const create = async () => {
        const { taskId, id = taskId } = (await send('POST', at, { payload: made })).json()
        return `${at}/${id}`
      }
      const change = async (url: string, ms: number) => {
        service.clock.now += ms
        const answer = await send(method, url + below, body && { payload: body })
        assert.equal(answer.statusCode, 200, answer.body)
        assert.doesNotMatch(answer.body, /sharesSecond|revision/)
      }
      const remove = (url: string) => send('DELETE', url)

      it(`200 for If-Modified-Since if ${at}/{id} was changed in the second in which it was created`, async () => {
        const url = await create()
        const since = { 'if-modified-since': await dateOf(url) }
        assert.equal(await status('GET', url, since), 304)
        await change(url, 400)
        const answer = await send('GET', url, { headers: since })
        assert.deepEqual([answer.statusCode, answer.headers.etag], [200, '"2"'])
        assert.equal(answer.headers['last-modified'], since['if-modified-since'])
        assert.equal(await status('HEAD', url, since), 200)
        assert.equal(await status('GET', url, { ...since, 'if-none-match': '"2"' }), 304)
        assert.equal(await status('GET', url, { 'if-unmodified-since': since['if-modified-since'] }), 412)
        await remove(url)
      })

      it(`304 for If-Modified-Since if only one revision of ${at}/{id} has that date`, async () => {
        const url = await create()
        await change(url, 1_000)
        const date = await dateOf(url)
        assert.equal(await status('GET', url, { 'if-modified-since': date }), 304)
        assert.equal(await status('GET', url, { 'if-unmodified-since': date }), 200)
        await remove(url)
      })

      it(`412 for writes to ${at}/{id} with an If-Unmodified-Since date that two revisions share`, async () => {
        const url = await create()
        const since = { 'if-unmodified-since': await dateOf(url) }
        if (below) await change(url, 400)
        else assert.equal(await status(method, url, since, body), 200)
        for (const _ of ['second', 'third']) {
          if (!below) assert.equal(await status(method, url, since, body), 412)
          assert.equal(await status('DELETE', url, since), 412)
        }
        assert.equal((await send('GET', url)).headers.etag, '"2"')
        await remove(url)
      })

      it(`200 or 204 for a write to ${at}/{id} if If-Unmodified-Since is the date of one revision only`, async () => {
        const url = await create()
        await change(url, 1_000)
        const since = { 'if-unmodified-since': await dateOf(url) }
        if (!below) assert.equal(await status(method, url, since, body), 200)
        else assert.equal(await status('DELETE', url, since), 204)
        await remove(url)
      })
    }
  })
})
