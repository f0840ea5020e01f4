import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Type } from 'typebox'
import { type Mounted, mount, send, sendRaw } from './support.ts'

const Thing = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 10 }),
  price: Type.Number({ minimum: 0 }),
  note: Type.Optional(Type.String({ maxLength: 3 })),
  inner: Type.Optional(Type.Object({ deep: Type.Integer() })),
})
const bodyLimit = 2_000
const json = 'application/json'
const patchType = 'application/merge-patch+json'

describe('bodies', () => {
  let mounted: Mounted
  /** What reached a handler: every entry passed the schema. */
  const reached: unknown[] = []
  before(async () => {
    const routes: Parameters<typeof mount>[1] = (app) => {
      const config = { scope: 'public' }
      app.post('/things', { config, schema: { body: Thing } }, async ({ body }) => {
        reached.push(body)
        return { received: body }
      })
      app.patch('/things', { config: { ...config, accepts: [patchType] }, schema: { body: Thing } }, async () => ({}))
      const querystring = Type.Object({
        limit: Type.Optional(Type.Integer({ minimum: 1 })),
        q: Type.Optional(Type.String()),
      })
      const params = Type.Object({ id: Type.Integer({ minimum: 1, maximum: 2_147_483_647 }) })
      app.get('/things/:id', { config, schema: { params, querystring } }, async ({ params, query }) => ({
        params,
        query,
      }))
    }
    mounted = await mount(['bodies'], routes, { bodyLimit })
  })
  after(() => mounted.app.close())

  const post = (payload: string | object, type: string | null = json, headers: Record<string, string> = {}) =>
    send(mounted, {
      method: 'POST',
      url: '/things',
      payload: typeof payload === 'string' ? payload : JSON.stringify(payload),
      headers: { ...(type !== null && { 'content-type': type }), ...headers },
    })
  const get = (url: string) => send(mounted, { url })
  const pen = '{"name":"Pen","price":1.5}'

  describe('the media type', () => {
    it('200 as application/json, whatever the case and the parameters', async () => {
      for (const type of [
        json,
        'Application/JSON',
        'application/json; charset=utf-8',
        'application/json;charset="UTF-8"',
      ]) {
        assert.equal((await post(pen, type)).statusCode, 200, type)
      }
    })

    it('415 as anything else, or without a type', async () => {
      const others = [
        'text/plain',
        'application/x-www-form-urlencoded',
        'application/xml',
        'text/json',
        'application/jsonx',
      ]
      for (const type of [
        ...others,
        'application/problem+json',
        'multipart/form-data; boundary=a',
        '*/*',
        'json',
        null,
      ]) {
        const answer = await post(pen, type)
        assert.equal(answer.statusCode, 415, String(type))
        assert.equal(answer.json().errorCode, 'UNSUPPORTED_MEDIA_TYPE')
      }
    })

    it('200 as application/merge-patch+json only where the route accepts it, else 415', async () => {
      const headers = { 'content-type': patchType }
      assert.equal((await send(mounted, { method: 'PATCH', url: '/things', payload: pen, headers })).statusCode, 200)
      assert.equal((await post(pen, patchType)).statusCode, 415)
      assert.equal(
        (await send(mounted, { method: 'PATCH', url: '/things', payload: pen, headers: { 'content-type': json } }))
          .statusCode,
        200,
      )
    })

    it('415 for a compressed body, which is never expanded (T-HTTP-08)', async () => {
      for (const coding of ['gzip', 'br', 'deflate', 'gzip, identity']) {
        assert.equal((await post(pen, json, { 'content-encoding': coding })).statusCode, 415, coding)
      }
      assert.equal((await post(pen, json, { 'content-encoding': 'identity' })).statusCode, 200)
    })

    it('415 or 400 for odd forms of the header, never unvalidated to the handler (T-HTTP-07)', async () => {
      const odd = [
        '\t',
        ' ',
        ';',
        ';;',
        ' ;',
        '\t; charset=utf-8',
        ', text/plain',
        ',application/json',
        '; charset=',
        'é',
        '/x',
        ' x',
      ]
      for (const suffix of odd) {
        for (const type of [json + suffix, suffix + json, (json + suffix).toUpperCase()]) {
          reached.length = 0
          const answer = await post('{"name":7,"price":"free"}', type)
          assert.ok([400, 415].includes(answer.statusCode), JSON.stringify(type))
          assert.deepEqual(reached, [], JSON.stringify(type))
        }
      }
    })
  })

  describe('malformed input', () => {
    const code = async (payload: string | object, type = json) => {
      reached.length = 0
      const answer = await post(payload, type)
      assert.deepEqual(reached, answer.statusCode === 200 ? [answer.json().received] : [])
      return [answer.statusCode, answer.json().errorCode]
    }

    it('400 INVALID_INPUT for a body that is not JSON', async () => {
      for (const text of [
        '{',
        '{"name":}',
        "{'name':'Pen'}",
        'name=Pen',
        '{"name":"Pen"} x',
        'NaN',
        '\u0000',
        '{"a":01}',
      ]) {
        assert.deepEqual(await code(text), [400, 'INVALID_INPUT'], text)
      }
    })

    it('400 INVALID_INPUT for an empty body and for none', async () => {
      assert.deepEqual(await code(''), [400, 'INVALID_INPUT'])
      const none = await send(mounted, { method: 'POST', url: '/things' })
      assert.deepEqual([none.statusCode, none.json().errorCode], [400, 'INVALID_INPUT'])
    })

    it('400 INVALID_INPUT for JSON that is no object', async () => {
      for (const text of ['null', '[]', '"Pen"', '7', 'true', `[${pen}]`]) {
        assert.deepEqual(await code(text), [400, 'INVALID_INPUT'], text)
      }
    })

    it('400 INVALID_INPUT for a wrong JSON type, without coercion (T-API-06)', async () => {
      for (const name of [7, true, null, ['Pen'], { $ne: '' }]) {
        assert.deepEqual(await code({ name, price: 1 }), [400, 'INVALID_INPUT'], JSON.stringify(name))
      }
      for (const price of ['1', '', true, null, [1], {}]) {
        assert.deepEqual(await code({ name: 'Pen', price }), [400, 'INVALID_INPUT'], JSON.stringify(price))
      }
      assert.deepEqual(await code({ name: 'Pen', price: 1, inner: { deep: '1' } }), [400, 'INVALID_INPUT'])
    })

    it('400 INVALID_INPUT for a number beyond all numbers (T-HTTP-09)', async () => {
      assert.deepEqual(await code('{"name":"Pen","price":1e999}'), [400, 'INVALID_INPUT'])
    })

    it('400 MISSING_REQUIRED_FIELD naming every absent field', async () => {
      const answer = await post({ note: 'a' })
      assert.equal(answer.statusCode, 400)
      assert.equal(answer.json().errorCode, 'MISSING_REQUIRED_FIELD')
      assert.deepEqual(
        answer.json().errors.map(({ field }: { field: string }) => field),
        ['name', 'price'],
      )
    })

    it('400 names malformed fields and absent ones at once', async () => {
      const answer = await post({ name: 7, inner: { deep: 'x' } })
      const fields = answer.json().errors.map(({ field }: { field: string }) => field)
      assert.deepEqual([answer.statusCode, answer.json().errorCode], [400, 'INVALID_INPUT'])
      assert.deepEqual(fields.sort(), ['inner.deep', 'name', 'price'])
    })

    it('400 for prototype keys at any depth, and no prototype changed (T-HTTP-09)', async () => {
      const keys = Reflect.ownKeys(Object.prototype)
      for (const text of [
        '{"name":"Pen","price":1,"__proto__":{"admin":true}}',
        '{"name":"Pen","price":1,"inner":{"deep":1,"__proto__":{"admin":true}}}',
        '{"name":"Pen","price":1,"constructor":{"prototype":{"admin":true}}}',
        '{"name":"Pen","price":1,"\\u005f_proto__":{"admin":true}}',
      ]) {
        assert.deepEqual(await code(text), [400, 'INVALID_INPUT'], text)
      }
      assert.deepEqual(Reflect.ownKeys(Object.prototype), keys)
      assert.equal(({} as Record<string, unknown>).admin, undefined)
    })

    it('400 for JSON nested deeper than 32 levels (T-HTTP-09)', async () => {
      const nested = (levels: number, [open, close] = ['[', ']']) =>
        `{"name":"Pen","price":1,"extra":${open.repeat(levels)}1${close.repeat(levels)}}`
      assert.deepEqual(await code(nested(31)), [200, undefined])
      assert.deepEqual(await code(nested(32)), [400, 'INVALID_INPUT'])
      assert.deepEqual(await code(nested(200, ['{"a":', '}'])), [400, 'INVALID_INPUT'])
      const quoted = JSON.stringify({ name: 'Pen', price: 1, extra: `\\"${'['.repeat(100)}` })
      assert.deepEqual(await code(quoted), [200, undefined])
    })
  })

  describe('the size', () => {
    const sized = (bytes: number) => {
      const empty = '{"name":"Pen","price":1,"extra":""}'
      return empty.replace('""', `"${'x'.repeat(bytes - empty.length)}"`)
    }

    it('200 up to the limit, 413 PAYLOAD_TOO_LARGE one byte beyond it', async () => {
      assert.equal((await post(sized(bodyLimit))).statusCode, 200)
      const answer = await post(sized(bodyLimit + 1))
      assert.equal(answer.statusCode, 413)
      assert.equal(answer.json().errorCode, 'PAYLOAD_TOO_LARGE')
    })

    it('413 counting bytes, not characters', async () => {
      const body = JSON.stringify({ name: 'Pen', price: 1, extra: 'ä'.repeat(bodyLimit / 2) })
      assert.ok(body.length < bodyLimit)
      assert.equal((await post(body)).statusCode, 413)
    })

    const head = ['POST /things HTTP/1.1', 'Host: a', 'X-Forwarded-Proto: https', `Content-Type: ${json}`]

    it('413 by the announced length, before the body arrives (T-HTTP-08)', async () => {
      const answer = await sendRaw(mounted, [...head, 'Connection: close', 'Content-Length: 999999999'])
      assert.equal(answer.status, 413)
      assert.equal(JSON.parse(answer.body).errorCode, 'PAYLOAD_TOO_LARGE')
    })

    it('413 for a chunked body that grows beyond the limit (T-HTTP-08)', async () => {
      const chunk = `3e8\r\n${'x'.repeat(1_000)}\r\n`
      const lines = [...head, 'Connection: close', 'Transfer-Encoding: chunked']
      const answer = await sendRaw(mounted, lines, `${chunk.repeat(3)}0\r\n\r\n`)
      assert.equal(answer.status, 413)
    })

    it('400 for JSON that Content-Length cuts short', async () => {
      const answer = await sendRaw(mounted, [...head, 'Connection: close', 'Content-Length: 20'], pen.slice(0, 20))
      assert.equal(answer.status, 400)
    })
  })

  describe('broken rules', () => {
    it('422 VALIDATION_ERROR naming every field at once', async () => {
      const answer = await post({ name: 'far too long a name', price: -1, note: 'four' })
      assert.equal(answer.statusCode, 422)
      assert.equal(answer.json().errorCode, 'VALIDATION_ERROR')
      assert.deepEqual(
        answer
          .json()
          .errors.map(({ field }: { field: string }) => field)
          .sort(),
        ['name', 'note', 'price'],
      )
      for (const { message } of answer.json().errors) assert.equal(typeof message, 'string')
    })

    it('200 with text trimmed before its rules apply', async () => {
      const answer = await post({ name: '  Pen\t\n', price: 0, note: '    a    ' })
      assert.deepEqual(answer.json().received, { name: 'Pen', price: 0, note: 'a' })
    })

    it('422 for text that is empty once trimmed', async () => {
      for (const name of ['', '   ', '\u00a0\u3000'])
        assert.equal((await post({ name, price: 1 })).statusCode, 422, name)
    })
  })

  describe('integers in path and query (T-API-06)', () => {
    const odd = [
      '1e3',
      '0x1',
      '-0',
      '+1',
      '01',
      '1.0',
      '1.',
      '.5',
      ' 1',
      '1 ',
      'abc',
      'NaN',
      '١',
      '9007199254740993',
      '',
    ]

    it('200 as canonical decimals, read as numbers', async () => {
      const answer = await get('/things/42?limit=7')
      assert.deepEqual(answer.json(), { params: { id: 42 }, query: { limit: 7 } })
      assert.equal((await get('/things/2147483647')).statusCode, 200)
    })

    it('400 INVALID_INPUT in any other form in the query', async () => {
      for (const text of odd) {
        const answer = await get(`/things/1?limit=${encodeURIComponent(text)}`)
        assert.deepEqual([answer.statusCode, answer.json().errorCode], [400, 'INVALID_INPUT'], text)
        assert.deepEqual(answer.json().errors[0].field, 'limit')
      }
    })

    it('400 INVALID_INPUT in any other form in the path, or out of range', async () => {
      for (const text of [...odd.filter((text) => text !== ''), '0', '-1', '2147483648', '1/', '%31%00']) {
        const path = text === '1/' ? '1%2F' : text.startsWith('%') ? text : encodeURIComponent(text)
        const answer = await get(`/things/${path}`)
        assert.deepEqual([answer.statusCode, answer.json().errorCode], [400, 'INVALID_INPUT'], text)
      }
    })

    it('400 for a repeated query parameter, for integers and for text', async () => {
      for (const query of ['limit=1&limit=2', 'limit=1&limit=1', 'q=a&q=b', 'q=a&q=']) {
        const answer = await get(`/things/1?${query}`)
        assert.deepEqual([answer.statusCode, answer.json().errorCode], [400, 'INVALID_INPUT'], query)
      }
    })

    it('200 with unknown query names, repeated or named like a prototype', async () => {
      const answer = await get('/things/1?x=1&x=2&__proto__=a&constructor=b&q[$ne]=c')
      assert.equal(answer.statusCode, 200)
      assert.equal(({} as Record<string, unknown>).a, undefined)
    })

    it('200 with text that looks like a number kept as text', async () => {
      assert.deepEqual((await get('/things/1?q=1e3')).json().query, { q: '1e3' })
    })
  })
})
