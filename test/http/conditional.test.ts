import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { type Precondition, preconditionOf } from '../../src/http/policies/conditional.ts'
import { Problem } from '../../src/http/problems/problem.ts'
import { type Mounted, mount, send } from './support.ts'

const changed = '2026-02-01T10:20:30.400Z'
const lastModified = 'Sun, 01 Feb 2026 10:20:30 GMT'
const config = { scope: 'public', cache: 'private', fields: true } as const

describe('conditional reads', () => {
  let mounted: Mounted
  let thing: object
  before(async () => {
    const Thing = Type.Partial(Type.Object({ name: Type.String(), updatedAt: Type.String() }))
    mounted = await mount(['conditional'], (app) => {
      app.get('/thing', { config, schema: { response: { 200: Thing } } }, async () => thing)
      app.get('/things', { config, schema: { response: { 200: Type.Array(Thing) } } }, async () => [thing])
      app.put('/thing', { config: { scope: 'public' } }, async () => thing)
      app.get('/secret', { config: { scope: 'public', cache: 'none' } }, async () => ({ secret: 1 }))
    })
  })
  beforeEach(() => {
    thing = { name: 'Pen', revision: 3, updatedAt: changed }
  })
  after(() => mounted.app.close())

  const read = (headers: Record<string, string> = {}, url = '/thing', method: 'GET' | 'HEAD' | 'PUT' = 'GET') =>
    send(mounted, { method, url, headers })
  const status = async (headers: Record<string, string>, url?: string, method?: 'GET' | 'HEAD' | 'PUT') =>
    (await read(headers, url, method)).statusCode

  describe('validators', () => {
    it('200 with a strong ETag from the revision, and Last-Modified', async () => {
      const answer = await read()
      assert.equal(answer.headers.etag, '"3"')
      assert.equal(answer.headers['last-modified'], lastModified)
      assert.deepEqual(answer.json(), { name: 'Pen', updatedAt: changed })
    })

    it('200 with a different strong ETag for a caller that may see fewer fields of the same revision (T-HTTP-16)', async () => {
      thing = { ...thing, view: 'reduced' }
      assert.equal((await read()).headers.etag, '"3.reduced"')
      assert.equal(await status({ 'if-none-match': '"3"' }), 200)
      assert.equal(await status({ 'if-none-match': '"3.reduced"' }), 304)
    })

    it('200 with a weak ETag for a list, different for different content', async () => {
      const first = String((await read({}, '/things')).headers.etag)
      assert.match(first, /^W\/"[^"]+"$/)
      assert.equal((await read({}, '/things')).headers.etag, first)
      thing = { name: 'Pencil', revision: 3, updatedAt: changed }
      assert.notEqual((await read({}, '/things')).headers.etag, first)
    })

    it('200 with a weak ETag for a partial response, even if If-None-Match has the strong ETag (T-HTTP-16)', async () => {
      for (const names of ['name', 'updatedAt', 'nothing', 'revision', 'revision,updatedAt', 'name,revision,view']) {
        const { headers } = await read({}, `/thing?fields=${names}`)
        assert.match(String(headers.etag), /^W\/"/, names)
      }
      assert.equal(await status({ 'if-none-match': '"3"' }, '/thing?fields=revision'), 200)
    })

    it('200 with the strong ETag if `fields` is empty, as if it were absent', async () => {
      assert.equal((await read({}, '/thing?fields=')).headers.etag, '"3"')
    })

    it('200 without validators if the response must not be stored', async () => {
      const { headers } = await read({}, '/secret')
      assert.deepEqual([headers.etag, headers['last-modified']], [undefined, undefined])
    })

    it('200 for a PUT, with the validators of the returned representation', async () => {
      const { headers } = await read({}, '/thing', 'PUT')
      assert.deepEqual([headers.etag, headers['last-modified']], ['"3"', lastModified])
    })

    it('200 for HEAD with the same validators as for GET', async () => {
      for (const url of ['/thing', '/things', '/thing?fields=name']) {
        const [get, head] = [await read({}, url), await read({}, url, 'HEAD')]
        assert.equal(head.body, '')
        for (const name of ['etag', 'last-modified', 'content-type', 'content-length']) {
          assert.equal(head.headers[name], get.headers[name], `${name} of ${url}`)
        }
      }
    })
  })

  describe('304', () => {
    const unchanged = async (headers: Record<string, string>, url: string, method: 'GET' | 'HEAD') => {
      const full = await read({}, url)
      const answer = await read(headers, url, method)
      assert.equal(answer.statusCode, 304)
      assert.equal(answer.body, '')
      for (const name of ['content-type', 'content-encoding', 'transfer-encoding', 'last-modified']) {
        assert.equal(answer.headers[name], undefined, name)
      }
      for (const name of ['etag', 'cache-control', 'strict-transport-security']) {
        assert.equal(answer.headers[name], full.headers[name], name)
      }
    }

    for (const method of ['GET', 'HEAD'] as const) {
      it(`for ${method} on a resource, with its ETag, without Last-Modified or content`, async () => {
        await unchanged({ 'if-none-match': '"3"' }, '/thing', method)
        await unchanged({ 'if-modified-since': lastModified }, '/thing', method)
      })

      it(`for ${method} on a list or a partial response, with its ETag, without content`, async () => {
        for (const url of ['/things', '/thing?fields=name']) {
          await unchanged({ 'if-none-match': String((await read({}, url)).headers.etag) }, url, method)
        }
      })
    }

    it('without Content-Length, or with the same value as the 200 response (RFC 9110 §8.6)', async () => {
      for (const url of ['/thing', '/things']) {
        const full = String((await read({}, url)).headers['content-length'])
        for (const method of ['GET', 'HEAD'] as const) {
          const { headers } = await read({ 'if-none-match': '*' }, url, method)
          assert.equal(headers['content-length'] ?? full, full, `${method} ${url}`)
        }
      }
    })

    it('never for a write, even with the current tag', async () => {
      assert.equal(await status({ 'if-none-match': '"3"' }, '/thing', 'PUT'), 200)
      assert.equal(await status({ 'if-modified-since': lastModified }, '/thing', 'PUT'), 200)
    })
  })

  describe('If-None-Match', () => {
    const table: [sent: string, status: number][] = [
      ['"3"', 304],
      ['W/"3"', 304],
      ['"1", "3"', 304],
      ['"1","2" ,  W/"3"', 304],
      ['*', 304],
      [' * ', 304],
      ['"4"', 200],
      ['"33"', 200],
      ['"3.reduced"', 200],
      ['"1", "2"', 200],
      ['', 200],
      ['3', 200],
      ['"a,3"', 200],
      ['"*"', 200],
    ]
    for (const [sent, expected] of table) {
      it(`${expected} for ${sent}`, async () => assert.equal(await status({ 'if-none-match': sent }), expected))
    }

    it('304 for the weak tag of a list, then 200 after the list has changed', async () => {
      const etag = String((await read({}, '/things')).headers.etag)
      assert.equal(await status({ 'if-none-match': etag }, '/things'), 304)
      assert.equal(await status({ 'if-none-match': etag.replace('W/', '') }, '/things'), 304)
      thing = { name: 'Pencil', revision: 4, updatedAt: changed }
      assert.equal(await status({ 'if-none-match': etag }, '/things'), 200)
    })

    it('takes precedence over If-Modified-Since (RFC 9110 §13.2.2)', async () => {
      assert.equal(await status({ 'if-none-match': '"2"', 'if-modified-since': lastModified }), 200)
      assert.equal(await status({ 'if-none-match': '"3"', 'if-modified-since': 'Thu, 01 Jan 2026 00:00:00 GMT' }), 304)
    })
  })

  describe('If-Modified-Since', () => {
    const table: [sent: string, status: number, why: string][] = [
      [lastModified, 304, 'the second of the change; the header has no fractions'],
      ['Sun, 01 Feb 2026 10:20:31 GMT', 304, 'a second later'],
      ['Sun, 01 Feb 2026 10:20:29 GMT', 200, 'a second earlier'],
      ['Sunday, 01-Feb-26 10:20:30 GMT', 304, 'a date in the obsolete RFC 850 format'],
      ['Sun Feb  1 10:20:30 2026', 304, "a date in the format of C's asctime"],
      ['Sun Feb  1 10:20:29 2026', 200, "a second earlier, in the format of C's asctime"],
      ['2026-03-01T00:00:00Z', 200, 'a value that is not an HTTP date'],
      ['2027', 200, 'a value that is not an HTTP date'],
      ['yesterday', 200, 'a value that is not a date'],
      ['', 200, 'an empty value'],
    ]
    for (const [sent, expected, why] of table) {
      it(`${expected} for ${why}: ${sent}`, async () =>
        assert.equal(await status({ 'if-modified-since': sent }), expected))
    }

    it('200 for a list, which has no modification date', async () => {
      assert.equal(await status({ 'if-modified-since': 'Sun, 01 Feb 2037 10:20:31 GMT' }, '/things'), 200)
    })
  })

  describe('If-Match and If-Unmodified-Since on reads (RFC 9110 §13.1)', () => {
    it('412 for an outdated or weak tag, 200 for the current tag or an asterisk', async () => {
      assert.equal(await status({ 'if-match': '"2"' }), 412)
      assert.equal(await status({ 'if-match': 'W/"3"' }), 412)
      assert.equal(await status({ 'if-match': '"3"' }), 200)
      assert.equal(await status({ 'if-match': '*' }), 200)
      assert.equal(await status({ 'if-match': '"2"', 'if-none-match': '"3"' }), 412)
    })

    it('412 if the resource was modified after the date, otherwise 200', async () => {
      assert.equal(await status({ 'if-unmodified-since': 'Sun, 01 Feb 2026 10:20:29 GMT' }), 412)
      assert.equal(await status({ 'if-unmodified-since': lastModified }), 200)
    })
  })
})

describe('preconditionOf', () => {
  const of = (headers: Record<string, string>, required = false): Precondition =>
    preconditionOf({ headers } as unknown as FastifyRequest, required)

  it('returns an empty object for a request without preconditions', () => assert.deepEqual(of({}), {}))

  it('reads revisions from strong tags in If-Match; weak and unknown tags match no row (T-RACE-01)', () => {
    assert.deepEqual(of({ 'if-match': '"3"' }), { matches: [3] })
    assert.deepEqual(of({ 'if-match': '"3", "12.reduced" ,W/"4"' }), { matches: [3, 12] })
    assert.deepEqual(of({ 'if-match': ' * ' }), { matches: 'any' })
    assert.deepEqual(of({ 'if-match': 'W/"3"' }), { matches: [] })
    for (const tag of ['"abc"', '"03"', '"3e1"', '"-3"', '"1234567890123"', '"*"', '""']) {
      assert.deepEqual(of({ 'if-match': tag }), { matches: [-1] }, tag)
    }
    assert.deepEqual(of({ 'if-match': '3' }), { matches: [] })
  })

  it('reads revisions from both strong and weak tags in If-None-Match', () => {
    assert.deepEqual(of({ 'if-none-match': 'W/"3", "4"' }), { differs: [3, 4] })
    assert.deepEqual(of({ 'if-none-match': '*' }), { differs: 'any' })
  })

  it('reads If-Unmodified-Since as the start of the given second, and ignores it if If-Match is present', () => {
    const since = { 'if-unmodified-since': lastModified }
    assert.deepEqual(of(since), { unmodifiedSince: '2026-02-01T10:20:30.000Z' })
    assert.deepEqual(of({ ...since, 'if-match': '"3"' }), { matches: [3] })
    assert.deepEqual(of({ ...since, 'if-none-match': '*' }), {
      unmodifiedSince: '2026-02-01T10:20:30.000Z',
      differs: 'any',
    })
  })

  it('ignores an If-Unmodified-Since that is not an HTTP date (RFC 9110 §13.1.4)', () => {
    for (const text of ['yesterday', '', '2026-02-01', '2026-02-01T10:20:30Z', '7']) {
      assert.deepEqual(of({ 'if-unmodified-since': text }), {}, text)
    }
  })

  it('throws PRECONDITION_REQUIRED if a required precondition is missing', () => {
    const isRequired = (error: unknown) => error instanceof Problem && error.code === 'PRECONDITION_REQUIRED'
    const without: Record<string, string>[] = [{}, { 'if-none-match': '"3"' }, { 'if-unmodified-since': 'yesterday' }]
    for (const headers of without) {
      assert.throws(() => of(headers, true), isRequired)
    }
    assert.deepEqual(of({ 'if-match': '"3"' }, true), { matches: [3] })
    assert.deepEqual(of({ 'if-unmodified-since': lastModified }, true), { unmodifiedSince: '2026-02-01T10:20:30.000Z' })
  })
})
