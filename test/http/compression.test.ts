import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { after, before, describe, it } from 'node:test'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { negotiateCoding } from '../../src/http/headers/content-encoding.ts'
import { type Mounted, mount, send } from './support.ts'

const updatedAt = '2026-02-01T10:20:30.400Z'
const large = 'It was a bright cold day. '.repeat(60)
const huge = large.repeat(50)
const unpack = { gzip: gunzipSync, br: brotliDecompressSync }

describe('compression', () => {
  let mounted: Mounted
  before(async () => {
    mounted = await mount(['compression', 'contentNegotiation'], (app) => {
      const kept = { scope: 'public', cache: 'public' } as const
      const text = (size: number) => 'x'.repeat(size - 2 - '{"t":""}'.length + 2)
      app.get('/thing', { config: { ...kept, fields: true } }, async () => ({ revision: 3, updatedAt, text: large }))
      app.get('/huge', { config: kept }, async () => ({ revision: 3, updatedAt, text: huge }))
      app.get('/small', { config: kept }, async () => ({ revision: 3, updatedAt, text: 'Pen' }))
      app.get('/list', { config: { ...kept, cache: 'private' } }, async () => [{ text: large }])
      app.get('/bytes/:size', { config: kept }, async ({ params }) => ({
        t: text(Number((params as { size: string }).size)),
      }))
      app.get('/secret', { config: { scope: 'public' } }, async () => ({ text: large }))
      app.post('/thing', { config: kept }, async () => ({ text: large }))
      app.get('/page', { config: kept }, async (_request, reply) => reply.type('text/html; charset=utf-8').send(large))
      app.get('/picture', { config: kept }, async (_request, reply) => reply.type('image/png').send(large))
      app.get('/stream', { config: kept }, async (_request, reply) =>
        reply.type('text/csv').send(Readable.from([large])),
      )
      app.get('/part', { config: kept }, async (_request, reply) => reply.code(206).send({ text: large }))
      app.get('/done', { config: kept }, async (_request, reply) =>
        reply.header('content-encoding', 'x').send({ text: large }),
      )
      app.get('/fixed', { config: kept }, async (_request, reply) =>
        reply.header('cache-control', 'public, no-transform').send({ text: large }),
      )
    })
  })
  after(() => mounted.app.close())

  const get = (url: string, encoding?: string, headers: Record<string, string> = {}, method: 'GET' | 'HEAD' = 'GET') =>
    send(mounted, {
      method,
      url,
      headers: { ...(encoding !== undefined && { 'accept-encoding': encoding }), ...headers },
    })
  const codingAt = async (url: string, encoding?: string, headers?: Record<string, string>) =>
    (await get(url, encoding, headers)).headers['content-encoding']

  for (const coding of ['gzip', 'br'] as const) {
    it(`200 in ${coding} with the same content but a different strong tag (RFC 9110 §8.8.3.3)`, async () => {
      for (const url of ['/thing', '/huge']) {
        const [plain, packed] = [await get(url), await get(url, coding)]
        assert.equal(packed.headers['content-encoding'], coding)
        assert.equal(unpack[coding](packed.rawPayload).toString(), plain.body)
        assert.equal(packed.headers['content-length'], String(packed.rawPayload.length))
        assert.ok(packed.rawPayload.length < plain.rawPayload.length / 4)
        assert.deepEqual([plain.headers.etag, packed.headers.etag], ['"3"', `"3-${coding}"`])
        for (const name of ['content-type', 'cache-control', 'last-modified', 'vary']) {
          assert.equal(packed.headers[name], plain.headers[name], name)
        }
      }
    })

    it(`HEAD gets the same headers as GET if both accept ${coding}`, async () => {
      const [read, head] = [await get('/thing', coding), await get('/thing', coding, {}, 'HEAD')]
      assert.equal(head.body, '')
      for (const name of ['etag', 'content-encoding', 'content-length', 'content-type', 'vary', 'last-modified']) {
        assert.equal(head.headers[name], read.headers[name], name)
      }
    })
  }

  it('a weak tag is the same in every coding, because it identifies the content, not the bytes', async () => {
    for (const url of ['/list', '/thing?fields=text']) {
      const plain = String((await get(url)).headers.etag)
      assert.match(plain, /^W\//)
      assert.equal((await get(url, 'gzip')).headers.etag, plain)
      assert.equal((await get(url, 'br', { 'if-none-match': plain })).statusCode, 304)
    }
  })

  it('sends Vary: Accept-Encoding whether or not the response is compressed, even with If-None-Match', async () => {
    for (const url of ['/thing', '/small', '/list', '/picture']) {
      for (const encoding of [undefined, 'gzip']) {
        assert.match(String((await get(url, encoding)).headers.vary), /\bAccept-Encoding\b/, `${url} ${encoding}`)
      }
    }
    assert.match(String((await get('/thing', 'gzip', { 'if-none-match': '*' })).headers.vary), /\bAccept-Encoding\b/)
  })

  it('200 with a compressed body from 1 KiB up, or at any size if uncompressed content is not acceptable', async () => {
    const sized = async (bytes: number, encoding: string) => {
      assert.equal((await get(`/bytes/${bytes}`)).headers['content-length'], String(bytes))
      return codingAt(`/bytes/${bytes}`, encoding)
    }
    assert.equal(await sized(1_023, 'gzip'), undefined)
    assert.equal(await sized(1_024, 'gzip'), 'gzip')
    assert.equal(await sized(1_023, 'gzip, identity;q=0'), 'gzip')
  })

  const plain: [url: string, why: string][] = [
    ['/secret', 'an uncacheable response, whose length could reveal a secret (T-HTTP-16)'],
    ['/picture', 'content that is not text'],
    ['/stream', 'a stream'],
    ['/part', 'partial content'],
    ['/fixed', 'a response with no-transform'],
    ['/nothing', 'an error'],
  ]
  for (const [url, why] of plain) {
    it(`no compression for ${why}`, async () => {
      const answer = await get(url, 'gzip, br')
      assert.equal(answer.headers['content-encoding'], undefined)
      assert.ok(answer.body.length > 0)
    })
  }

  it('no compression for content that already has a coding, or for the response to a write', async () => {
    assert.equal(await codingAt('/done', 'gzip'), 'x')
    const written = await send(mounted, { method: 'POST', url: '/thing', headers: { 'accept-encoding': 'gzip' } })
    assert.equal(written.headers['content-encoding'], undefined)
  })

  it('200 with a compressed body for an HTML page', async () => assert.equal(await codingAt('/page', 'gzip'), 'gzip'))

  describe('conditional requests', () => {
    const held: [tag: string, encoding: string | undefined, status: number, tag304: string][] = [
      ['"3-gzip"', 'gzip', 304, '"3-gzip"'],
      ['W/"3-gzip"', 'gzip', 304, '"3-gzip"'],
      ['"3-gzip"', 'gzip, br', 304, '"3-gzip"'],
      ['"3-br"', 'gzip, br', 304, '"3-br"'],
      ['"2", "3-br"', '*', 304, '"3-br"'],
      ['"3"', 'gzip', 304, '"3"'],
      ['"3-gzip", "3"', 'gzip', 304, '"3"'],
      ['*', 'gzip', 304, '"3"'],
      // A client that sends a tag for a coding it does not accept is probably a shared cache. A 304 would make the
      // cache serve a representation that this request does not accept.
      ['"3-gzip"', undefined, 200, ''],
      ['"3-gzip"', 'br', 200, ''],
      ['"3-gzip"', 'gzip;q=0', 200, ''],
      ['"2-gzip"', 'gzip', 200, ''],
      ['"3-deflate"', 'deflate', 200, ''],
      ['"3-gzip-gzip"', 'gzip', 200, ''],
    ]
    for (const [tag, encoding, status, expected] of held) {
      it(`${status} for If-None-Match: ${tag} with ${encoding === undefined ? 'no Accept-Encoding' : `Accept-Encoding: ${encoding}`}`, async () => {
        const answer = await get('/thing', encoding, { 'if-none-match': tag })
        assert.equal(answer.statusCode, status)
        if (status !== 304) return
        assert.equal(answer.headers.etag, expected)
        assert.equal(answer.rawPayload.length, 0)
        for (const name of ['content-encoding', 'content-type']) assert.equal(answer.headers[name], undefined, name)
      })
    }

    it('200 for If-Match with the current revision in any coding, 412 for any other tag', async () => {
      for (const tag of ['"3"', '"3-gzip"', '"3-br"']) {
        assert.equal((await get('/thing', 'gzip', { 'if-match': tag })).statusCode, 200, tag)
      }
      for (const tag of ['"2-gzip"', 'W/"3-gzip"', '"3-x"']) {
        assert.equal((await get('/thing', 'gzip', { 'if-match': tag })).statusCode, 412, tag)
      }
    })
  })
})

describe('negotiateCoding (RFC 9110 §12.5.3)', () => {
  const table: [header: string, coding: string | null, identity: boolean][] = [
    ['gzip', 'gzip', true],
    ['x-gzip', 'gzip', true],
    ['GZip', 'gzip', true],
    ['gzip, deflate, br', 'br', true],
    ['gzip, deflate, br, zstd', 'br', true],
    ['br;q=0.5, gzip;q=0.8', 'gzip', true],
    ['br;q=0.8, gzip;q=0.8', 'br', true],
    ['br;q=0, *', 'gzip', true],
    ['*', 'br', true],
    ['*;q=0', null, false],
    ['gzip, *;q=0', 'gzip', false],
    ['identity', null, true],
    ['identity, gzip;q=0.5', null, true],
    ['identity;q=0.5, gzip', 'gzip', true],
    ['identity;q=0', null, false],
    ['identity;q=0, gzip', 'gzip', false],
    ['*;q=0, identity', null, true],
    ['gzip;q=0', null, true],
    ['gzip;q=0.000', null, true],
    ['deflate, compress', null, true],
    ['', null, true],
    ['gzipx', null, true],
  ]
  for (const [header, coding, identity] of table) {
    it(`returns ${coding} for "${header}"${identity ? '' : ', and that uncompressed content is not acceptable'}`, () =>
      assert.deepEqual(negotiateCoding(header), { coding, identity }))
  }
})
