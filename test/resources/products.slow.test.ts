import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { sql } from 'kysely'
import { appOn, type TestApp, testApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

forEachEngine((engine) => {
  const service = appOn(engine)

  type Request = Parameters<TestApp['send']>[0]
  const send = (request: Request) => service.send(request)
  const create = async (body: object = { name: 'Pen', price: 1.5 }) => {
    const answer = await send({ method: 'POST', url: '/products', payload: body })
    assert.equal(answer.statusCode, 201, answer.body)
    return answer.json() as { id: number; name: string; price: number; createdAt: string; updatedAt: string }
  }
  const stored = async (id: number) => (await send({ url: `/products/${id}` })).json()
  const is = async (request: Request, status: number, code: string, note = '') => {
    const answer = await send(request)
    assert.deepEqual([answer.statusCode, answer.json().errorCode], [status, code], `${note} ${answer.body}`)
    return answer
  }
  const fieldsOf = (answer: { json: () => { errors: { field: string }[] } }) => [
    ...new Set(answer.json().errors.map(({ field }) => field)),
  ]
  /** Runs `use` with a second app that has these settings and the same database. */
  const withSettings = async (settings: Parameters<typeof testApp>[1], use: (other: TestApp) => Promise<void>) => {
    const other = await testApp(service.db, settings)
    await use(other).finally(() => other.app.close())
  }

  const wrongBodies: [note: string, body: object | string, status: number, code: string, fields?: string[]][] = [
    ['invalid JSON', '{"name":', 400, 'INVALID_INPUT'],
    ['a list', [], 400, 'INVALID_INPUT'],
    ['a name that is a number', { name: 7, price: 1 }, 400, 'INVALID_INPUT', ['name']],
    ['a price that is text (T-API-03)', { name: 'Pen', price: '1' }, 400, 'INVALID_INPUT', ['price']],
    ['a price that is null', { name: 'Pen', price: null }, 400, 'INVALID_INPUT', ['price']],
    ['an empty object', {}, 400, 'MISSING_REQUIRED_FIELD', ['name', 'price']],
    ['no price', { name: 'Pen' }, 400, 'MISSING_REQUIRED_FIELD', ['price']],
    ['an empty name', { name: ' ', price: 1 }, 422, 'VALIDATION_ERROR', ['name']],
    ['a name of 201 characters', { name: 'x'.repeat(201), price: 1 }, 422, 'VALIDATION_ERROR', ['name']],
    ['a control character', { name: 'a\u0007b', price: 1 }, 422, 'VALIDATION_ERROR', ['name']],
    ['NUL (T-HTTP-09)', { name: 'a\u0000b', price: 1 }, 422, 'VALIDATION_ERROR', ['name']],
    ['a lone high surrogate (T-HTTP-09)', { name: 'a\ud800b', price: 1 }, 422, 'VALIDATION_ERROR', ['name']],
    ['a lone low surrogate', { name: '\udc00', price: 1 }, 422, 'VALIDATION_ERROR', ['name']],
    ['a negative price', { name: 'Pen', price: -0.01 }, 422, 'VALIDATION_ERROR', ['price']],
    ['too high a price', { name: 'Pen', price: 1_000_000_000 }, 422, 'VALIDATION_ERROR', ['price']],
    ['three decimal places', { name: 'Pen', price: 1.005 }, 422, 'VALIDATION_ERROR', ['price']],
    ['eleven decimal places', { name: 'Pen', price: 5.000_000_000_01 }, 422, 'VALIDATION_ERROR', ['price']],
    ['several invalid fields', { name: '', price: -1 }, 422, 'VALIDATION_ERROR', ['name', 'price']],
  ]
  const refusesWrongBodies = (method: 'POST' | 'PUT', url: () => string) => {
    for (const [note, body, status, code, fields] of wrongBodies) {
      it(`${status} ${code} for ${note}`, async () => {
        const payload = typeof body === 'string' ? body : JSON.stringify(body)
        const headers = { 'content-type': 'application/json' }
        const answer = await is({ method, url: url(), payload, headers }, status, code)
        if (fields) assert.deepEqual(fieldsOf(answer).sort(), fields)
      })
    }
  }
  const refusesWrongCallers = (method: 'POST' | 'PUT' | 'PATCH' | 'DELETE', url: () => string) => {
    it('401 without a token or with an invalid one, 403 without the scope', async () => {
      const request = { method, url: url(), ...(method !== 'DELETE' && { payload: { name: 'Pen', price: 1 } }) }
      await is({ ...request, scopes: null }, 401, 'AUTH_REQUIRED')
      await is({ ...request, token: 'expired' }, 401, 'AUTH_TOKEN_EXPIRED')
      await is({ ...request, token: 'forged' }, 401, 'AUTH_TOKEN_INVALID')
      await is({ ...request, scopes: 'books:write users:write' }, 403, 'ACCESS_DENIED')
    })
  }

  describe('POST /products', () => {
    it('201 with the product, Location, ETag and Last-Modified', async () => {
      const answer = await send({ method: 'POST', url: '/products', payload: { name: ' Pen\t', price: 19.99 } })
      assert.equal(answer.statusCode, 201)
      const product = answer.json()
      assert.ok(Number.isInteger(product.id) && product.id >= 1)
      const instant = new Date(service.clock.now).toISOString()
      assert.deepEqual(product, { id: product.id, name: 'Pen', price: 19.99, createdAt: instant, updatedAt: instant })
      assert.equal(answer.headers.location, `/products/${product.id}`)
      assert.equal(answer.headers.etag, '"1"')
      assert.equal(answer.headers['last-modified'], new Date(service.clock.now).toUTCString())
      assert.equal(answer.headers['cache-control'], 'no-store')
      assert.deepEqual(await stored(product.id), product)
    })

    it('201 with a Location under the version prefix of the request', async () => {
      const answer = await send({ method: 'POST', url: '/v1/products', payload: { name: 'Pen', price: 1 } })
      assert.equal(answer.headers.location, `/v1/products/${answer.json().id}`)
    })

    it('201 ignoring unknown and read-only fields (T-API-03)', async () => {
      const extra = {
        id: 4_711,
        revision: 9,
        createdAt: '2001-01-01',
        updatedAt: 7,
        _links: {},
        owner: 'me',
        nameKey: 'x',
      }
      const product = await create({ name: 'Pen', price: 1, ...extra })
      assert.notEqual(product.id, 4_711)
      assert.deepEqual(Object.keys(product), ['id', 'name', 'price', 'createdAt', 'updatedAt'])
      assert.equal(product.createdAt, new Date(service.clock.now).toISOString())
    })

    it('201 for any price with up to two decimal places, stored exactly', async () => {
      for (const price of [
        0, 0.01, 0.07, 0.29, 1.1, 4.35, 1_234_567.89, 6_213_230.18, 459_405_344.18, 999_999_999.99,
      ]) {
        const { id } = await create({ name: 'Pen', price })
        assert.equal((await stored(id)).price, price)
      }
    })

    it('201 for names with quotes, markup, emoji and other special characters, stored exactly', async () => {
      for (const name of [
        'x'.repeat(200),
        'Füller ✒️ 🖋',
        "'; drop table products; --",
        '"\\<b>&amp;',
        '%_!',
        '\u202eabc',
        '𝒳',
      ]) {
        const { id } = await create({ name, price: 1 })
        assert.equal((await stored(id)).name, name)
      }
    })

    it('201 for two products with the same name', async () => {
      const [first, second] = [await create(), await create()]
      assert.equal(second.id, first.id + 1)
    })

    it('415 for a media type other than application/json', async () => {
      const request = { method: 'POST', url: '/products', payload: '{"name":"Pen","price":1}' } as const
      await is({ ...request, headers: { 'content-type': 'text/plain' } }, 415, 'UNSUPPORTED_MEDIA_TYPE')
      await is(
        { ...request, headers: { 'content-type': 'application/merge-patch+json' } },
        415,
        'UNSUPPORTED_MEDIA_TYPE',
      )
    })

    it('413 for a body of more than 1 MiB', async () => {
      const payload = { name: 'Pen', price: 1, note: 'x'.repeat(1_048_576) }
      await is({ method: 'POST', url: '/products', payload }, 413, 'PAYLOAD_TOO_LARGE')
    })

    refusesWrongCallers('POST', () => '/products')
    refusesWrongBodies('POST', () => '/products')
  })

  describe('GET /products/{id}', () => {
    it('200 without a token, publicly cacheable for a minute', async () => {
      const { id } = await create()
      const answer = await send({ url: `/products/${id}`, scopes: null })
      assert.equal(answer.statusCode, 200)
      assert.match(String(answer.headers['content-type']), /^application\/json/)
      assert.equal(answer.headers['cache-control'], 'public, max-age=60, must-revalidate')
      assert.equal(answer.headers.expires, new Date(service.clock.now + 60_000 - 500).toUTCString())
      assert.deepEqual((await send({ url: `/v1/products/${id}` })).json(), answer.json())
    })

    it('304 for If-None-Match with the current tag, 200 once the product has changed', async () => {
      const { id } = await create()
      const headers = { 'if-none-match': '"1"' }
      const unchanged = await send({ url: `/products/${id}`, headers })
      assert.deepEqual([unchanged.statusCode, unchanged.body, unchanged.headers.etag], [304, '', '"1"'])
      await send({ method: 'PUT', url: `/products/${id}`, payload: { name: 'Pencil', price: 2 } })
      const changed = await send({ url: `/products/${id}`, headers })
      assert.deepEqual([changed.statusCode, changed.headers.etag, changed.json().name], [200, '"2"', 'Pencil'])
    })

    it('304 if the product has not changed since If-Modified-Since, otherwise 200', async () => {
      const { id } = await create()
      const since = (ms: number) => ({ 'if-modified-since': new Date(service.clock.now + ms).toUTCString() })
      assert.equal((await send({ url: `/products/${id}`, headers: since(0) })).statusCode, 304)
      assert.equal((await send({ url: `/products/${id}`, headers: since(-1_000) })).statusCode, 200)
    })

    it('200 and 304 for HEAD, without a body', async () => {
      const { id } = await create()
      const answer = await send({ method: 'HEAD', url: `/products/${id}` })
      assert.deepEqual([answer.statusCode, answer.body, answer.headers.etag], [200, '', '"1"'])
      const headers = { 'if-none-match': '"1"' }
      assert.equal((await send({ method: 'HEAD', url: `/products/${id}`, headers })).statusCode, 304)
    })

    it('200 with only the requested fields and a weak tag', async () => {
      const { id } = await create()
      const answer = await send({ url: `/products/${id}?fields=price,secret,id` })
      assert.deepEqual(answer.json(), { price: 1.5, id })
      assert.match(String(answer.headers.etag), /^W\//)
      assert.deepEqual((await send({ url: `/products/${id}?fields=revision,nameKey,name_key,view` })).json(), {})
      assert.deepEqual((await send({ url: `/products/${id}?fields=` })).json(), await stored(id))
    })

    it('400 for a repeated fields parameter or more than 50 fields', async () => {
      await is({ url: '/products/1?fields=id&fields=name' }, 400, 'INVALID_INPUT')
      await is({ url: `/products/1?fields=${'a,'.repeat(51)}` }, 400, 'INVALID_INPUT')
    })

    it('400 for an id that no product can have (T-API-06)', async () => {
      for (const id of ['abc', '1e3', '0x1', '-0', '0', '-1', '01', '1.0', `-${'9'.repeat(30)}`, '1%20', '%00']) {
        await is({ url: `/products/${id}` }, 400, 'INVALID_INPUT', id)
      }
    })

    it('404 when there is no such product, with or without preconditions', async () => {
      await is({ url: '/products/2147483647' }, 404, 'RESOURCE_NOT_FOUND')
      await is({ url: '/products/2147483647', headers: { 'if-none-match': '*' } }, 404, 'RESOURCE_NOT_FOUND')
      await is({ url: '/v2147483647/products/1' }, 404, 'RESOURCE_NOT_FOUND')
    })

    it('401 with an invalid token, although the path is public', async () => {
      await is({ url: '/products/1', token: 'expired' }, 401, 'AUTH_TOKEN_EXPIRED')
      await is({ url: '/products', token: 'forged' }, 401, 'AUTH_TOKEN_INVALID')
    })

    it('401 without a token, 200 with Cache-Control `private` for a valid token, when reading is not public', async () => {
      const { id } = await create()
      await withSettings({ publicRead: false }, async (closed) => {
        for (const url of [`/products/${id}`, '/products']) {
          assert.equal((await closed.send({ url, scopes: null })).statusCode, 401)
          const answer = await closed.send({ url, scopes: 'reports:read' })
          assert.deepEqual([answer.statusCode, answer.headers['cache-control']], [200, 'private, no-cache'])
        }
      })
    })
  })

  describe('PUT /products/{id}', () => {
    const put = (id: number, headers: Record<string, string> = {}, payload: object = { name: 'Pencil', price: 2 }) =>
      send({ method: 'PUT', url: `/products/${id}`, payload, headers })

    it('200 with the updated product and its new tag', async () => {
      const { id, createdAt } = await create()
      service.clock.now += 5_000
      const answer = await put(id)
      assert.equal(answer.statusCode, 200)
      const updatedAt = new Date(service.clock.now).toISOString()
      assert.deepEqual(answer.json(), { id, name: 'Pencil', price: 2, createdAt, updatedAt })
      assert.equal(answer.headers.etag, '"2"')
      assert.equal(answer.headers['last-modified'], new Date(service.clock.now).toUTCString())
      assert.deepEqual(await stored(id), answer.json())
    })

    it('200 when a changed representation is sent back; read-only fields are ignored', async () => {
      const product = await create()
      const answer = await put(product.id, {}, { ...product, price: 3, id: 1, createdAt: 'x' })
      assert.deepEqual([answer.statusCode, answer.json().id, answer.json().price], [200, product.id, 3])
      assert.equal(answer.json().createdAt, product.createdAt)
    })

    it('200 for If-Match with the current tag, alone or in a list, and for If-Match: *', async () => {
      const { id } = await create()
      const tags = ['"1"', '"7", "2"', '*', '"4","5"']
      for (const tag of tags) assert.equal((await put(id, { 'if-match': tag })).statusCode, 200, tag)
      assert.equal((await send({ url: `/products/${id}` })).headers.etag, '"5"')
    })

    it('412 for If-Match with wrong, weak or malformed tags; nothing changes (T-RACE-01)', async () => {
      const product = await create()
      await put(product.id)
      const before = await stored(product.id)
      for (const tag of ['"1"', 'W/"2"', '"3"', '"1", "3"', '2', '"2.0"', '"*"', '""', '"abc"', 'W/"1", W/"2"']) {
        const answer = await put(product.id, { 'if-match': tag }, { name: 'No', price: 0 })
        assert.deepEqual([answer.statusCode, answer.json().errorCode], [412, 'PRECONDITION_FAILED'], tag)
        assert.equal(answer.headers.etag, undefined)
      }
      assert.deepEqual(await stored(product.id), before)
      assert.equal((await put(product.id, { 'if-match': '"2"' })).headers.etag, '"3"')
    })

    it('412 for If-None-Match with the current tag, even weak, or * (T-RACE-02)', async () => {
      const { id } = await create()
      for (const tag of ['"1"', 'W/"1"', '*', '"7", W/"1"']) {
        assert.equal((await put(id, { 'if-none-match': tag })).statusCode, 412, tag)
      }
      assert.equal((await put(id, { 'if-none-match': '"7"' })).statusCode, 200)
      assert.equal((await put(id, { 'if-match': '"2"', 'if-none-match': '"2"' })).statusCode, 412)
    })

    it('412 for If-Unmodified-Since before the last change, otherwise 200; If-Match takes precedence', async () => {
      const { id } = await create()
      const since = (ms: number) => ({ 'if-unmodified-since': new Date(service.clock.now + ms).toUTCString() })
      assert.equal((await put(id, since(-1_000))).statusCode, 412)
      assert.equal((await put(id, since(0))).statusCode, 200)
      assert.equal((await put(id, { ...since(-1_000), 'if-match': '"2"' })).statusCode, 200)
      assert.equal((await put(id, { 'if-unmodified-since': 'no date' })).statusCode, 200)
    })

    it('404 when there is no such product, regardless of preconditions', async () => {
      const payload = { name: 'Pen', price: 1 }
      for (const headers of [{}, { 'if-match': '"1"' }, { 'if-none-match': '*' }, { 'if-match': '*' }]) {
        await is({ method: 'PUT', url: '/products/2147483647', payload, headers }, 404, 'RESOURCE_NOT_FOUND')
      }
    })

    it('404 for any positive integer that is not the id of a product, however long', async () => {
      const payload = { name: 'Pen', price: 1 }
      for (const id of ['2147483648', '9999999999', '9007199254740993', '9'.repeat(30)]) {
        const url = `/products/${id}`
        await is({ url }, 404, 'RESOURCE_NOT_FOUND', id)
        await is({ method: 'PUT', url, payload: { name: 1 } }, 400, 'INVALID_INPUT', id)
        for (const headers of [{}, { 'if-match': '"1"' }, { 'if-none-match': '*' }]) {
          await is({ method: 'PUT', url, payload, headers }, 404, 'RESOURCE_NOT_FOUND', id)
          await is({ method: 'PATCH', url, payload, headers }, 404, 'RESOURCE_NOT_FOUND', id)
          await is({ method: 'DELETE', url, headers }, 404, 'RESOURCE_NOT_FOUND', id)
        }
      }
    })

    it('428 without If-Match when the service requires it', async () => {
      const { id } = await create()
      await withSettings({ requireIfMatch: true }, async (strict) => {
        const write = async (method: 'PUT' | 'PATCH' | 'DELETE', headers: Record<string, string> = {}) => {
          const payload = method === 'DELETE' ? {} : { payload: { name: 'Pen', price: 1 } }
          return strict.send({ method, url: `/products/${id}`, headers, ...payload })
        }
        for (const method of ['PUT', 'PATCH', 'DELETE'] as const) {
          const answer = await write(method)
          assert.deepEqual([answer.statusCode, answer.json().errorCode], [428, 'PRECONDITION_REQUIRED'], method)
        }
        assert.equal((await write('PUT', { 'if-match': '"7"' })).statusCode, 412)
        assert.equal((await write('PUT', { 'if-match': '"1"' })).statusCode, 200)
        assert.equal((await write('PATCH', { 'if-match': '"2"' })).statusCode, 200)
        assert.equal((await write('DELETE', { 'if-match': '"3"' })).statusCode, 204)
      })
    })

    it('400 for an id in exponent notation, even if a product with that number exists', async () => {
      const { id } = await create()
      const override = sql.raw(engine.name === 'postgres' ? 'overriding system value' : '')
      await service.db.write((tx) =>
        sql`insert into products (id, revision, created_at, updated_at, name, name_key, price) ${override}
          select 1000, revision, created_at, updated_at, name, name_key, price from products where id = ${id}`.execute(
          tx,
        ),
      )
      const before = await stored(1_000)
      assert.equal(before.name, 'Pen')
      const payload = { name: 'Changed', price: 9 }
      for (const method of ['GET', 'PUT', 'PATCH', 'DELETE'] as const) {
        await is({ method, url: '/products/1e3', ...(/P/.test(method) && { payload }) }, 400, 'INVALID_INPUT', method)
      }
      assert.deepEqual(await stored(1_000), before)
    })

    refusesWrongCallers('PUT', () => '/products/1')
    refusesWrongBodies('PUT', () => '/products/1')
  })

  describe('PATCH /products/{id}', () => {
    const mergePatch = 'application/merge-patch+json'
    const patch = (id: number, body: unknown, headers: Record<string, string> = {}, type = mergePatch) =>
      send({
        method: 'PATCH',
        url: `/products/${id}`,
        payload: JSON.stringify(body),
        headers: { 'content-type': type, ...headers },
      })

    for (const type of [mergePatch, 'application/json', 'application/merge-patch+json; charset=utf-8']) {
      it(`200 changing only the sent members, as ${type}`, async () => {
        const product = await create()
        const answer = await patch(product.id, { price: 2 }, {}, type)
        assert.deepEqual([answer.statusCode, answer.headers.etag], [200, '"2"'])
        const updatedAt = new Date(service.clock.now).toISOString()
        assert.deepEqual(answer.json(), { ...product, price: 2, updatedAt })
        assert.deepEqual(await stored(product.id), answer.json())
      })
    }

    it('200 ignoring read-only and unknown members (T-API-03)', async () => {
      const product = await create()
      const answer = await patch(product.id, { id: 1, revision: 70, createdAt: null, nameKey: 'x', extra: { a: null } })
      assert.deepEqual(answer.json(), { ...product, updatedAt: answer.json().updatedAt })
      assert.equal(answer.headers.etag, '"2"')
    })

    it('200 with trimmed text', async () => {
      const { id } = await create()
      assert.equal((await patch(id, { name: '  Pencil ' })).json().name, 'Pencil')
    })

    const wrong: [note: string, body: unknown, status: number, code: string][] = [
      ['null for a required member', { price: null }, 400, 'MISSING_REQUIRED_FIELD'],
      ['a wrong type', { price: '2' }, 400, 'INVALID_INPUT'],
      ['an object for text', { name: { first: 'Pen' } }, 400, 'INVALID_INPUT'],
      ['a list', [{ price: 2 }], 400, 'INVALID_INPUT'],
      ['null', null, 400, 'INVALID_INPUT'],
      ['text', 'price', 400, 'INVALID_INPUT'],
      ['an empty name', { name: ' ' }, 422, 'VALIDATION_ERROR'],
      ['a broken rule', { price: -1 }, 422, 'VALIDATION_ERROR'],
    ]
    for (const [note, body, status, code] of wrong) {
      it(`${status} ${code} for ${note}, and nothing changes`, async () => {
        const product = await create()
        const answer = await patch(product.id, body)
        assert.deepEqual([answer.statusCode, answer.json().errorCode], [status, code], answer.body)
        assert.deepEqual(await stored(product.id), product)
      })
    }

    it('400 for a member named __proto__ (T-HTTP-09)', async () => {
      const { id } = await create()
      const payload = '{"__proto__":{"price":1}}'
      const headers = { 'content-type': mergePatch }
      await is({ method: 'PATCH', url: `/products/${id}`, payload, headers }, 400, 'INVALID_INPUT')
    })

    it('412 for a failed precondition, 200 for If-Match with the current tag or *', async () => {
      const { id } = await create()
      for (const tag of ['"7"', 'W/"1"'])
        assert.equal((await patch(id, { price: 2 }, { 'if-match': tag })).statusCode, 412)
      assert.equal((await patch(id, { price: 2 }, { 'if-none-match': '*' })).statusCode, 412)
      assert.equal((await patch(id, { price: 2 }, { 'if-match': '"1"' })).statusCode, 200)
      assert.equal((await patch(id, { price: 2 }, { 'if-match': '*' })).statusCode, 200)
    })

    it('404 when there is no such product, 415 for an unsupported media type', async () => {
      const missing = await patch(2_147_483_647, { price: 2 })
      assert.deepEqual([missing.statusCode, missing.json().errorCode], [404, 'RESOURCE_NOT_FOUND'])
      for (const type of ['application/json-patch+json', 'text/plain']) {
        assert.equal((await patch(1, [], {}, type)).statusCode, 415, type)
      }
    })

    it('200 for both of two concurrent patches, with neither change lost', async () => {
      const { id } = await create()
      const answers = await Promise.all([patch(id, { name: 'Both' }), patch(id, { price: 42 })])
      assert.deepEqual(
        answers.map(({ statusCode }) => statusCode),
        [200, 200],
      )
      const { name, price } = await stored(id)
      assert.deepEqual([name, price], ['Both', 42])
    })

    refusesWrongCallers('PATCH', () => '/products/1')
  })

  describe('DELETE /products/{id}', () => {
    const remove = (id: number, headers: Record<string, string> = {}) =>
      send({ method: 'DELETE', url: `/products/${id}`, headers })

    it('204 with an empty body, then 404', async () => {
      const { id } = await create()
      const answer = await remove(id)
      assert.deepEqual([answer.statusCode, answer.body], [204, ''])
      assert.deepEqual([answer.headers['content-type'], answer.headers.etag], [undefined, undefined])
      assert.equal((await remove(id)).statusCode, 404)
      await is({ url: `/products/${id}` }, 404, 'RESOURCE_NOT_FOUND')
      await is({ method: 'PUT', url: `/products/${id}`, payload: { name: 'Pen', price: 1 } }, 404, 'RESOURCE_NOT_FOUND')
    })

    it('412 for a failed precondition, without deleting the product; 204 for If-Match with the current tag', async () => {
      const product = await create()
      const outdated: Record<string, string>[] = [
        { 'if-match': '"7"' },
        { 'if-match': 'W/"1"' },
        { 'if-none-match': '*' },
      ]
      for (const headers of outdated) assert.equal((await remove(product.id, headers)).statusCode, 412)
      assert.deepEqual(await stored(product.id), product)
      assert.equal((await remove(product.id, { 'if-match': '"1"' })).statusCode, 204)
      assert.equal((await remove(product.id, { 'if-match': '"1"' })).statusCode, 404)
    })

    it('204 for one of ten concurrent requests, 404 for the others', async () => {
      const { id } = await create()
      const answers = await Promise.all(Array.from({ length: 10 }, () => remove(id)))
      const statuses = answers.map(({ statusCode }) => statusCode).sort()
      assert.deepEqual(statuses, [204, ...Array(9).fill(404)])
    })

    it('never reuses the id for a later product', async () => {
      const { id } = await create()
      await remove(id)
      const next = await create()
      assert.ok(next.id > id)
      await remove(next.id)
      assert.ok((await create()).id > next.id)
    })

    it('400 for an id that no product can have', async () => {
      await is({ method: 'DELETE', url: '/products/x' }, 400, 'INVALID_INPUT')
    })

    refusesWrongCallers('DELETE', () => '/products/1')
  })

  describe('other methods', () => {
    it('405 with Allow; for OPTIONS, 204 with Allow', async () => {
      const collection = 'GET, HEAD, OPTIONS, POST'
      const single = 'DELETE, GET, HEAD, OPTIONS, PATCH, PUT'
      for (const prefix of ['', '/v1']) {
        for (const [method, path, allow] of [
          ['DELETE', '/products', collection],
          ['PUT', '/products', collection],
          ['POST', '/products/1', single],
        ] as const) {
          const answer = await is({ method, url: prefix + path }, 405, 'METHOD_NOT_ALLOWED')
          assert.equal(answer.headers.allow, allow)
          const options = await send({ method: 'OPTIONS', url: prefix + path, scopes: null })
          assert.deepEqual([options.statusCode, options.headers.allow, options.body], [204, allow, ''])
        }
      }
    })
  })
})
