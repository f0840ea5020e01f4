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

describe('request bodies', () => {
  let mounted: Mounted
  /** The bodies that reached a handler; each must have passed validation. */
  const reached: unknown[] = []
  before(async () => {
    const routes: Parameters<typeof mount>[1] = (app) => {
      const config = { scope: 'public' }
      app.post('/things', { config, schema: { body: Thing } }, async ({ body }) => {
        reached.push(body)
        return { received: body }
      })
      app.delete('/things', { config }, async (_request, reply) => reply.code(204).send())
      app.post('/bare', { config }, async ({ body }) => ({ received: body ?? null }))
      app.patch('/things', { config: { ...config, accepts: [patchType] }, schema: { body: Thing } }, async () => ({}))
      const querystring = Type.Object({
        limit: Type.Optional(Type.Integer({ minimum: 1 })),
        q: Type.Optional(Type.String()),
      })
      const params = Type.Object({ id: Type.Integer({ minimum: 1 }) })
      app.get('/things/:id', { config, schema: { params, querystring } }, async ({ params, query }) => ({
        params,
        query,
      }))
    }
    mounted = await mount(['bodyParsing', 'methods'], routes, { bodyLimit })
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
    it('200 for application/json in upper or lower case, with or without charset=utf-8', async () => {
      for (const type of [
        json,
        'Application/JSON',
        'application/json; charset=utf-8',
        'application/json;charset="UTF-8"',
      ]) {
        assert.equal((await post(pen, type)).statusCode, 200, type)
      }
    })

    it('415 for any other media type, or none', async () => {
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

    it('200 for application/merge-patch+json where the route accepts it, otherwise 415', async () => {
      const headers = { 'content-type': patchType }
      assert.equal((await send(mounted, { method: 'PATCH', url: '/things', payload: pen, headers })).statusCode, 200)
      assert.equal((await post(pen, patchType)).statusCode, 415)
      assert.equal(
        (await send(mounted, { method: 'PATCH', url: '/things', payload: pen, headers: { 'content-type': json } }))
          .statusCode,
        200,
      )
    })

    it('415 for any charset other than UTF-8; other parameters are ignored', async () => {
      for (const parameters of [
        'charset=UTF-8',
        'charset="Utf-8"',
        'v=1; charset=utf-8',
        'note="a;b";charset=utf-8',
        'v=1',
        '',
      ]) {
        assert.equal((await post(pen, `${json}; ${parameters}`)).statusCode, 200, parameters)
      }
      const others = [
        'iso-8859-1',
        'utf-16',
        'utf8',
        'us-ascii',
        '"utf-16"',
        'utf-8; charset=latin1',
        'latin1; charset=utf-8',
      ]
      for (const charset of others) {
        const answer = await post(pen, `${json}; charset=${charset}`)
        assert.deepEqual([answer.statusCode, answer.json().errorCode], [415, 'UNSUPPORTED_MEDIA_TYPE'], charset)
      }
    })

    it('415 for other media types that end in +json', async () => {
      for (const name of ['vnd.plinth.v1', 'ld', 'problem', 'json-patch', 'hal']) {
        assert.equal((await post(pen, `application/${name}+json`)).statusCode, 415, name)
      }
    })

    it('415 with the accepted media types or codings in the headers (RFC 9110 §15.5.16)', async () => {
      assert.equal((await post(pen, 'text/plain')).headers.accept, json)
      const coded = await post(pen, json, { 'content-encoding': 'gzip' })
      assert.deepEqual([coded.headers['accept-encoding'], coded.headers.accept], ['identity', undefined])
      const headers = { 'content-type': 'application/json-patch+json' }
      const patch = await send(mounted, { method: 'PATCH', url: '/things', payload: '[]', headers })
      assert.equal(patch.headers['accept-patch'], `${patchType}, ${json}`)
    })

    it('415 for a compressed body, which is never decompressed (T-HTTP-08)', async () => {
      for (const coding of ['gzip', 'br', 'deflate', 'gzip, identity']) {
        assert.equal((await post(pen, json, { 'content-encoding': coding })).statusCode, 415, coding)
      }
      assert.equal((await post(pen, json, { 'content-encoding': 'identity' })).statusCode, 200)
    })

    it('400 or 415 for an invalid body with an unusual or malformed Content-Type; no handler sees it (T-HTTP-07)', async () => {
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

    it('400 INVALID_INPUT for an empty or missing body', async () => {
      assert.deepEqual(await code(''), [400, 'INVALID_INPUT'])
      const none = await send(mounted, { method: 'POST', url: '/things' })
      assert.deepEqual([none.statusCode, none.json().errorCode], [400, 'INVALID_INPUT'])
    })

    it('400 INVALID_INPUT for a body that consists only of white space or a byte order mark', async () => {
      for (const text of [' ', '\r\n\t ', '\ufeff']) assert.deepEqual(await code(text), [400, 'INVALID_INPUT'])
    })

    it('200 for a body with one byte order mark, which is skipped; 400 for two (RFC 8259 §8.1)', async () => {
      assert.deepEqual(await code(`\ufeff${pen}`), [200, undefined])
      assert.deepEqual(await code(`\ufeff\ufeff${pen}`), [400, 'INVALID_INPUT'])
    })

    it('400 INVALID_INPUT for invalid UTF-8 (T-HTTP-09)', async () => {
      const wrong = [[0xff], [0xc3], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xf5, 0x80, 0x80, 0x80], [0xe2, 0x28, 0xa1]]
      for (const bytes of wrong) {
        const payload = Buffer.concat([Buffer.from('{"price":1,"name":"'), Buffer.from(bytes), Buffer.from('"}')])
        const answer = await send(mounted, {
          method: 'POST',
          url: '/things',
          payload,
          headers: { 'content-type': json },
        })
        assert.deepEqual([answer.statusCode, answer.json().errorCode], [400, 'INVALID_INPUT'], String(bytes))
      }
      assert.deepEqual(await code('{"name":"Пен 😀","price":1}'), [200, undefined])
    })

    it('400 INVALID_INPUT for duplicate names in an object, escaped or not (RFC 7493 §2.3)', async () => {
      for (const text of [
        '{"name":"Pen","price":1,"price":2}',
        '{"name":"Pen","price":1,"price":1}',
        '{"name":"Pen","price":1,"\\u0070rice":2}',
        '{"name":"Pen","price":1,"":1,"":2}',
        '{"name":"Pen","price":1,"inner":{"deep":1,"deep":2}}',
        '{"name":"Pen","price":1,"list":[{"a":1},{"a":1,"a":[]}]}',
        '{"name":"Pen","price":1,"inner":{"deep":1},"inner":{"deep":2}}',
        '{"name":"Pen","price":1,"a":{"b":1,"c":2},"a":0}',
      ]) {
        assert.deepEqual(await code(text), [400, 'INVALID_INPUT'], text)
      }
    })

    it('200 for the same name in different objects and for colons inside strings', async () => {
      for (const extra of [
        '{"name":1,"price":{"name":2}}',
        '[{"a":1},{"a":1}]',
        '"a:b\\":\\"c:\\\\"',
        '{"A":1,"a":2}',
        '{"a:":1}',
      ]) {
        assert.deepEqual(await code(`{"name":"Pen","price":1,"extra":${extra}}`), [200, undefined], extra)
      }
    })

    it('400 INVALID_INPUT for a number beyond the precision or range of a double (RFC 7493 §2.2)', async () => {
      const numbers = ['1e400', '-1e400', '1e-400', '9007199254740992', '-9007199254740993', '1.000000000000000001']
      for (const number of [
        ...numbers,
        '123456789012345678901234567890',
        '3.141592653589793238462643383279',
        '0'.padEnd(70, '1'),
      ]) {
        assert.deepEqual(await code(`{"name":"Pen","price":1,"extra":${number}}`), [400, 'INVALID_INPUT'], number)
      }
    })

    it('200 for a number within the precision and range of a double', async () => {
      const numbers = [
        '0',
        '-0',
        '0e-400',
        '9007199254740991',
        '1e308',
        '5e-324',
        '0.1',
        '0.30000000000000004',
        '1.50000000000000000',
      ]
      for (const number of numbers) {
        const answer = await post(`{"name":"Pen","price":1,"extra":[${number},"${'9'.repeat(50)}"]}`)
        assert.equal(answer.statusCode, 200, number)
        assert.equal(answer.json().received.extra[0], Number(number) === 0 ? 0 : Number(number))
      }
    })

    it('400 INVALID_INPUT for more than 1,000 members (T-HTTP-09)', async () => {
      const app = await mount(['bodyParsing'], (app) =>
        app.post('/things', { config: { scope: 'public' }, schema: { body: Type.Object({}) } }, async () => ({})),
      )
      const members = (count: number) => `{${Array.from({ length: count }, (_, at) => `"${at}":[{}]`).join()}}`
      const sent = (payload: string) =>
        send(app, { method: 'POST', url: '/things', payload, headers: { 'content-type': json } })
      assert.equal((await sent(members(1_000))).statusCode, 200)
      for (const count of [1_001, 40_000]) {
        const { statusCode, ...answer } = await sent(members(count))
        const { errorCode, detail } = answer.json()
        assert.deepEqual([statusCode, errorCode], [400, 'INVALID_INPUT'])
        assert.match(detail, /1,?000/)
      }
      await app.app.close()
    })

    it('400 INVALID_INPUT for JSON that is not an object', async () => {
      for (const text of ['null', '[]', '"Pen"', '7', 'true', `[${pen}]`]) {
        assert.deepEqual(await code(text), [400, 'INVALID_INPUT'], text)
      }
    })

    it('400 INVALID_INPUT for a wrong JSON type, because types are not coerced (T-API-06)', async () => {
      for (const name of [7, true, null, ['Pen'], { $ne: '' }]) {
        assert.deepEqual(await code({ name, price: 1 }), [400, 'INVALID_INPUT'], JSON.stringify(name))
      }
      for (const price of ['1', '', true, null, [1], {}]) {
        assert.deepEqual(await code({ name: 'Pen', price }), [400, 'INVALID_INPUT'], JSON.stringify(price))
      }
      assert.deepEqual(await code({ name: 'Pen', price: 1, inner: { deep: '1' } }), [400, 'INVALID_INPUT'])
    })

    it('400 INVALID_INPUT for a number that overflows to infinity (T-HTTP-09)', async () => {
      assert.deepEqual(await code('{"name":"Pen","price":1e999}'), [400, 'INVALID_INPUT'])
    })

    it('400 MISSING_REQUIRED_FIELD with a list of all missing fields', async () => {
      const answer = await post({ note: 'a' })
      assert.equal(answer.statusCode, 400)
      assert.equal(answer.json().errorCode, 'MISSING_REQUIRED_FIELD')
      assert.deepEqual(
        answer.json().errors.map(({ field }: { field: string }) => field),
        ['name', 'price'],
      )
    })

    it('400 with a list of all malformed and missing fields', async () => {
      const answer = await post({ name: 7, inner: { deep: 'x' } })
      const fields = answer.json().errors.map(({ field }: { field: string }) => field)
      assert.deepEqual([answer.statusCode, answer.json().errorCode], [400, 'INVALID_INPUT'])
      assert.deepEqual(fields.sort(), ['inner.deep', 'name', 'price'])
    })

    it('400 for prototype keys at any depth, without modifying a prototype (T-HTTP-09)', async () => {
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

  describe('an unexpected body (RFC 9110 §9.3)', () => {
    const types = [undefined, json, patchType, 'text/plain', 'application/json; charset=latin1']
    it('204 for DELETE and 200 for GET, regardless of the body', async () => {
      for (const type of types) {
        for (const payload of [undefined, '', '{', pen, '\u0000']) {
          const headers: Record<string, string> = type === undefined ? {} : { 'content-type': type }
          const removed = await send(mounted, { method: 'DELETE', url: '/things', payload, headers })
          assert.equal(removed.statusCode, 204, `${type} ${payload}`)
          assert.equal((await send(mounted, { url: '/things/1', payload, headers })).statusCode, 200)
        }
      }
    })

    it('200 for a POST to a route without a body schema; the handler does not receive the body', async () => {
      for (const type of types.slice(1) as string[]) {
        const headers = { 'content-type': type }
        const answer = await send(mounted, { method: 'POST', url: '/bare', payload: pen, headers })
        assert.deepEqual([answer.statusCode, answer.json()], [200, { received: null }], type)
      }
    })

    it('404 for an unknown path and 405 for an unsupported method, regardless of the body', async () => {
      const sent = (method: 'POST' | 'PUT', url: string, payload: string) =>
        send(mounted, { method, url, payload, headers: { 'content-type': json } })
      for (const payload of ['{', '', pen, 'x'.repeat(2 * bodyLimit)]) {
        assert.equal((await sent('POST', '/nothing', payload)).statusCode, 404)
        assert.equal((await sent('PUT', '/things', payload)).statusCode, 405)
      }
    })
  })

  describe('the connection after a rejected body (RFC 9112 §9.6)', () => {
    const head = ['POST /things HTTP/1.1', 'Host: a', 'X-Forwarded-Proto: https']
    const refused = async (lines: string[], body = '') => {
      const last = 'GET /things/1 HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\nConnection: close\r\n\r\n'
      const answer = await sendRaw(mounted, [...head, ...lines], body + last)
      return [answer.status, answer.headers.connection, answer.body.includes('HTTP/1.1 200')]
    }

    it('stays open if the body was read, so that the next request gets a response', async () => {
      const json1 = ['Content-Type: application/json', 'Content-Length: 1']
      assert.deepEqual(await refused(json1, '{'), [400, undefined, true])
      assert.deepEqual(await refused(['Content-Type: text/plain', 'Content-Length: 1'], 'x'), [415, undefined, true])
      assert.deepEqual(await refused([...json1, 'Content-Encoding: gzip'], 'x'), [415, undefined, true])
    })

    it('is closed if the rest of the body could be long', async () => {
      const long = ['Content-Type: text/plain', 'Content-Length: 999999999']
      assert.deepEqual(await refused(long), [415, 'close', false])
      const chunked = ['Content-Type: text/plain', 'Transfer-Encoding: chunked']
      assert.deepEqual(await refused(chunked), [415, 'close', false])
    })
  })

  it('400 for a media type without a body, or the response of a route that takes no body', async () => {
    const cases: [line: string, type: string, status: number][] = [
      ['POST /things', json, 400],
      ['PATCH /things', patchType, 400],
      ['POST /things', 'text/plain', 415],
      ['POST /bare', json, 200],
      ['DELETE /things', json, 204],
    ]
    for (const [line, type, status] of cases) {
      const fields = ['Host: a', 'X-Forwarded-Proto: https', `Content-Type: ${type}`, 'Connection: close']
      const answer = await sendRaw(mounted, [`${line} HTTP/1.1`, ...fields])
      assert.equal(answer.status, status, `${line} ${type}`)
    }
  })

  describe('the size limit', () => {
    const sized = (bytes: number) => {
      const empty = '{"name":"Pen","price":1,"extra":""}'
      return empty.replace('""', `"${'x'.repeat(bytes - empty.length)}"`)
    }

    it('200 up to the limit, 413 PAYLOAD_TOO_LARGE one byte above the limit', async () => {
      assert.equal((await post(sized(bodyLimit))).statusCode, 200)
      const answer = await post(sized(bodyLimit + 1))
      assert.equal(answer.statusCode, 413)
      assert.equal(answer.json().errorCode, 'PAYLOAD_TOO_LARGE')
    })

    it('413 for more bytes than the limit, even if there are fewer characters', async () => {
      const body = JSON.stringify({ name: 'Pen', price: 1, extra: 'ä'.repeat(bodyLimit / 2) })
      assert.ok(body.length < bodyLimit)
      assert.equal((await post(body)).statusCode, 413)
    })

    const head = ['POST /things HTTP/1.1', 'Host: a', 'X-Forwarded-Proto: https', `Content-Type: ${json}`]

    it('413 for a Content-Length above the limit, before the body arrives (T-HTTP-08)', async () => {
      const answer = await sendRaw(mounted, [...head, 'Connection: close', 'Content-Length: 999999999'])
      assert.equal(answer.status, 413)
      assert.equal(JSON.parse(answer.body).errorCode, 'PAYLOAD_TOO_LARGE')
    })

    it('413 for a chunked body that exceeds the limit (T-HTTP-08)', async () => {
      const chunk = `3e8\r\n${'x'.repeat(1_000)}\r\n`
      const lines = [...head, 'Connection: close', 'Transfer-Encoding: chunked']
      const answer = await sendRaw(mounted, lines, `${chunk.repeat(3)}0\r\n\r\n`)
      assert.equal(answer.status, 413)
    })

    it('400 for JSON that is truncated by its Content-Length', async () => {
      const answer = await sendRaw(mounted, [...head, 'Connection: close', 'Content-Length: 20'], pen.slice(0, 20))
      assert.equal(answer.status, 400)
    })
  })

  describe('body validation', () => {
    it('422 VALIDATION_ERROR with a list of all invalid fields', async () => {
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

    it('200 for text that is valid once trimmed; the handler receives the trimmed text', async () => {
      const answer = await post({ name: '  Pen\t\n', price: 0, note: '    a    ' })
      assert.deepEqual(answer.json().received, { name: 'Pen', price: 0, note: 'a' })
    })

    it('422 for text that is empty once trimmed', async () => {
      for (const name of ['', '   ', '\u00a0\u3000'])
        assert.equal((await post({ name, price: 1 })).statusCode, 422, name)
    })
  })

  describe('integers in the path and query (T-API-06)', () => {
    const odd = ['1e3', '0x1', '-0', '+1', '01', '1.0', '1.', '.5', ' 1', '1 ', 'abc', 'NaN', '١', '']

    it('200 for canonical decimals, which are parsed as numbers', async () => {
      const answer = await get('/things/42?limit=7')
      assert.deepEqual(answer.json(), { params: { id: 42 }, query: { limit: 7 } })
      assert.equal((await get('/things/2147483647')).statusCode, 200)
    })

    it('200 for any number of digits: unsafe integers are clamped to 2^53', async () => {
      for (const text of ['9007199254740993', '9'.repeat(30), '9'.repeat(250)]) {
        const { params, query } = (await get(`/things/${text}?limit=${text.repeat(4)}`)).json()
        assert.deepEqual([params.id, query.limit], [2 ** 53, 2 ** 53], text)
      }
    })

    it('400 INVALID_INPUT for a query parameter that is not a canonical decimal', async () => {
      for (const text of odd) {
        const answer = await get(`/things/1?limit=${encodeURIComponent(text)}`)
        assert.deepEqual([answer.statusCode, answer.json().errorCode], [400, 'INVALID_INPUT'], text)
        assert.deepEqual(answer.json().errors[0].field, 'limit')
      }
    })

    it('400 INVALID_INPUT for a path parameter that is not a canonical decimal or is out of range', async () => {
      for (const text of [...odd.filter((text) => text !== ''), '0', '-1', `-${'9'.repeat(30)}`, '1/', '%31%00']) {
        const path = text === '1/' ? '1%2F' : text.startsWith('%') ? text : encodeURIComponent(text)
        const answer = await get(`/things/${path}`)
        assert.deepEqual([answer.statusCode, answer.json().errorCode], [400, 'INVALID_INPUT'], text)
      }
    })

    it('400 for a repeated integer or text parameter in the query', async () => {
      for (const query of ['limit=1&limit=2', 'limit=1&limit=1', 'q=a&q=b', 'q=a&q=']) {
        const answer = await get(`/things/1?${query}`)
        assert.deepEqual([answer.statusCode, answer.json().errorCode], [400, 'INVALID_INPUT'], query)
      }
    })

    it('200 for unknown query parameters, even if they are repeated or named like prototype members', async () => {
      const answer = await get('/things/1?x=1&x=2&__proto__=a&constructor=b&q[$ne]=c')
      assert.equal(answer.statusCode, 200)
      assert.equal(({} as Record<string, unknown>).a, undefined)
    })

    it('200 for text that looks like a number, without conversion to a number', async () => {
      assert.deepEqual((await get('/things/1?q=1e3')).json().query, { q: '1e3' })
    })
  })
})
