import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { appOn, type TestApp, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

interface User {
  id: number
  name: string
  email: string
  address?: string
  phone?: string
  createdAt: string
  updatedAt: string
}

forEachEngine((engine) => {
  const service = appOn(engine, { prefixes: [''] })
  let count = 0

  type Request = Parameters<TestApp['send']>[0]
  const send = (request: Request) => service.send(request)
  const full = 'users:read users:write users:read:full'
  const fresh = () => `user${++count}@plinth.test`
  const create = async (body: object = {}) => {
    const payload = { name: 'Ada', email: fresh(), address: '1 Main St', phone: '+49 30 (1)-2', ...body }
    const answer = await send({ method: 'POST', url: '/users', payload, scopes: full })
    assert.equal(answer.statusCode, 201, answer.body)
    return answer.json() as User
  }
  const is = async (request: Request, status: number, code: string, note = '') => {
    const answer = await send(request)
    assert.deepEqual([answer.statusCode, answer.json().errorCode], [status, code], `${note} ${answer.body}`)
    return answer
  }
  const post = (payload: object): Request => ({ method: 'POST', url: '/users', payload })
  const fieldsOf = (answer: { json: () => { errors: { field: string }[] } }) => [
    ...new Set(answer.json().errors.map(({ field }) => field)),
  ]

  describe('POST /users', () => {
    it('201 with the user, Location and ETag; all fields for users:read:full', async () => {
      const payload = { name: 'Ada', email: fresh(), address: '1 Main St', phone: '+49 30' }
      const answer = await send({ ...post(payload), scopes: full })
      assert.equal(answer.statusCode, 201)
      const { id, createdAt, updatedAt, ...rest } = answer.json() as User
      assert.deepEqual(rest, payload)
      assert.equal(createdAt, updatedAt)
      assert.match(createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      assert.equal(answer.headers.location, `/users/${id}`)
      assert.equal(answer.headers.etag, '"1"')
    })

    it('201 for a body with only name and email', async () => {
      const answer = await send(post({ name: 'Ada', email: fresh() }))
      assert.deepEqual(Object.keys(answer.json()), ['id', 'name', 'email', 'createdAt', 'updatedAt'])
    })

    it('201 for e-mail addresses that match the pattern of the HTML standard, stored as sent', async () => {
      const local = fresh().split('@')[0]
      const long = `${'a'.repeat(243)}${String(++count).padStart(3, '0')}@plinth`
      assert.equal(long.length, 253)
      for (const email of [`${local}@localhost`, `${local}.Ada+tag@Sub.Plinth.TEST`, `o'${local}@a-b.test`, long]) {
        const { id } = await create({ email })
        assert.equal((await send({ url: `/users/${id}` })).json().email, email)
      }
    })

    it('422 for addresses that do not match the HTML pattern or are too long', async () => {
      const wrong = [
        '',
        'ada',
        '@plinth.test',
        'ada@',
        'a b@plinth.test',
        'ada@plinth..test',
        'ada@-plinth.test',
        'a@b@c',
      ]
      const more = [
        'ada@plinth.test\u0000',
        'ada@plinth_.test',
        'é@plinth.test',
        'ａda@plinth.test',
        'ada@plinth.test.',
      ]
      for (const email of [...wrong, ...more, `${'a'.repeat(243)}@plinth.test`]) {
        const answer = await is(post({ name: 'Ada', email }), 422, 'VALIDATION_ERROR', email)
        assert.deepEqual(fieldsOf(answer), ['email'])
      }
    })

    it('422 naming every invalid field at once', async () => {
      const payload = { name: '', email: 'x', address: 'a\u0000', phone: 'call me' }
      assert.deepEqual(fieldsOf(await is(post(payload), 422, 'VALIDATION_ERROR')), [
        'name',
        'email',
        'address',
        'phone',
      ])
      const long = { name: 'x'.repeat(201), email: fresh(), address: 'x'.repeat(501), phone: '1'.repeat(33) }
      assert.deepEqual(fieldsOf(await is(post(long), 422, 'VALIDATION_ERROR')), ['name', 'address', 'phone'])
    })

    it('400 naming every missing or malformed field', async () => {
      assert.deepEqual(fieldsOf(await is(post({}), 400, 'MISSING_REQUIRED_FIELD')), ['name', 'email'])
      assert.deepEqual(fieldsOf(await is(post({ name: 1, email: {} }), 400, 'INVALID_INPUT')), ['name', 'email'])
    })

    it('401 without a token, 403 without users:write', async () => {
      const request = post({ name: 'Ada', email: fresh() })
      await is({ ...request, scopes: null }, 401, 'AUTH_REQUIRED')
      await is({ ...request, scopes: 'users:read users:read:full' }, 403, 'ACCESS_DENIED')
    })
  })

  describe('an e-mail address in use (T-AUTH-06)', () => {
    const spellings = (email: string) => [
      email,
      email.toUpperCase(),
      email.replace(/^./, (letter) => letter.toUpperCase()),
      ` ${email}\t`,
      `\u00a0${email}\ufeff`,
    ]

    it('409 DUPLICATE_RESOURCE, whatever its case and surrounding white space', async () => {
      const email = fresh()
      await create({ email })
      for (const spelling of spellings(email)) {
        const answer = await is(post({ name: 'Eve', email: spelling }), 409, 'DUPLICATE_RESOURCE', spelling)
        assert.deepEqual(fieldsOf(answer), ['email'])
        assert.equal(answer.body.includes('Ada'), false)
      }
    })

    it('422 for similar addresses with non-ASCII characters, which do not match the pattern', async () => {
      const email = fresh()
      await create({ email })
      const forms = [
        email.replace('u', 'ｕ'),
        email.replace('s', 'ſ'),
        email.replace('e', 'e\u0301'),
        email.replace('i', 'ı'),
      ]
      for (const form of forms) await is(post({ name: 'Eve', email: form }), 422, 'VALIDATION_ERROR', form)
    })

    it('201 for exactly one of 30 concurrent requests, 409 for the others', async () => {
      for (let round = 0; round < 3; round++) {
        const forms = spellings(fresh())
        const answers = await Promise.all(
          Array.from({ length: 30 }, (_, at) => send(post({ name: `N${at}`, email: forms[at % forms.length] }))),
        )
        const statuses = answers.map(({ statusCode }) => statusCode).sort()
        assert.deepEqual(statuses, [201, ...Array(29).fill(409)])
      }
    })

    it("409 for PUT and PATCH with another user's address, 200 with the user's own", async () => {
      const [ada, eve] = [await create(), await create({ name: 'Eve' })]
      const taken = { name: 'Eve', email: ada.email.toUpperCase() }
      await is({ method: 'PUT', url: `/users/${eve.id}`, payload: taken }, 409, 'DUPLICATE_RESOURCE')
      await is({ method: 'PATCH', url: `/users/${eve.id}`, payload: { email: ada.email } }, 409, 'DUPLICATE_RESOURCE')
      assert.equal((await send({ url: `/users/${eve.id}` })).json().email, eve.email)
      const own = await send({ method: 'PATCH', url: `/users/${eve.id}`, payload: { email: eve.email.toUpperCase() } })
      assert.deepEqual([own.statusCode, own.json().email], [200, eve.email.toUpperCase()])
    })

    it('201 once its user has been deleted or has changed to another address', async () => {
      const [first, second] = [await create(), await create()]
      await send({ method: 'DELETE', url: `/users/${first.id}` })
      await send({ method: 'PATCH', url: `/users/${second.id}`, payload: { email: fresh() } })
      for (const email of [first.email, second.email]) {
        assert.ok((await create({ email })).id > second.id)
      }
    })
  })

  describe('GET /users/{id}', () => {
    const reduced = ['id', 'name', 'email', 'createdAt', 'updatedAt']
    const whole = ['id', 'name', 'email', 'address', 'phone', 'createdAt', 'updatedAt']
    const read = (id: number, bearer: string, headers = {}, query = '') =>
      send({ url: `/users/${id}${query}`, token: bearer, headers })

    it('200 with all fields for the user and for users:read:full, without hidden fields for others', async () => {
      const { id } = await create()
      const seen = async (bearer: string) => Object.keys((await read(id, bearer)).json())
      assert.deepEqual(await seen(token('users:read', 'cli_web', 'usr_other')), reduced)
      assert.deepEqual(await seen(token('users:read', 'cli_web', String(id + 1))), reduced)
      assert.deepEqual(await seen(token('users:read', String(id), String(id))), reduced, 'a client named like the id')
      assert.deepEqual(await seen(token('users:read', 'cli_web', String(id))), whole)
      assert.deepEqual(await seen(token('users:read users:read:full')), whole)
    })

    it('200 with different tags for the full and the reduced representation (T-HTTP-16)', async () => {
      const { id } = await create()
      const [other, all] = [token('users:read'), token('users:read users:read:full')]
      const [small, large] = [await read(id, other), await read(id, all)]
      assert.notEqual(small.headers.etag, large.headers.etag)
      const unchanged = { 'if-none-match': String(small.headers.etag) }
      assert.equal((await read(id, other, unchanged)).statusCode, 304)
      assert.equal((await read(id, all, unchanged)).statusCode, 200)
    })

    it('200 with Cache-Control: private, no-cache', async () => {
      const { id } = await create()
      const answer = await read(id, token('users:read'))
      assert.equal(answer.headers['cache-control'], 'private, no-cache')
      assert.equal(answer.headers.expires, undefined)
    })

    it('200 without hidden fields even when `fields` names them (T-API-04)', async () => {
      const { id } = await create()
      const query = '?fields=address,phone,emailKey,view,revision,id'
      assert.deepEqual((await read(id, token('users:read'), {}, query)).json(), { id })
      const answer = await read(id, token('users:read users:read:full'), {}, '?fields=phone')
      assert.deepEqual(answer.json(), { phone: '+49 30 (1)-2' })
    })

    it('200 with `fields` and a tag that does not depend on hidden fields (T-API-04)', async () => {
      const { id } = await create()
      const tag = async () => (await read(id, token('users:read'), {}, '?fields=name,phone')).headers.etag
      const before = await tag()
      await send({ method: 'PATCH', url: `/users/${id}`, payload: { phone: '1' } })
      assert.equal(await tag(), before)
    })

    it('404 when there is no such user, 401 without a token, 403 without users:read', async () => {
      await is({ url: '/users/2147483647' }, 404, 'RESOURCE_NOT_FOUND')
      await is({ url: '/users/1', scopes: null }, 401, 'AUTH_REQUIRED')
      await is({ url: '/users/1', scopes: 'users:write users:read:full' }, 403, 'ACCESS_DENIED')
      await is({ url: '/users', scopes: null }, 401, 'AUTH_REQUIRED')
      await is({ url: '/users', scopes: 'users:write' }, 403, 'ACCESS_DENIED')
    })
  })

  describe('PUT /users/{id}', () => {
    it('200 with the tag of the full or the reduced representation as If-Match, 412 with an outdated one', async () => {
      const { id } = await create()
      const put = (tag: string) =>
        send({
          method: 'PUT',
          url: `/users/${id}`,
          payload: { name: 'Ada', email: fresh() },
          headers: { 'if-match': tag },
        })
      assert.equal((await put('"1.reduced"')).statusCode, 200)
      assert.equal((await put('"2"')).statusCode, 200)
      assert.equal((await put('"2.reduced"')).statusCode, 412)
    })

    it('200 when a caller who sees every field sends back a changed representation', async () => {
      const user = await create()
      const answer = await send({
        method: 'PUT',
        url: `/users/${user.id}`,
        payload: { ...user, name: 'Bo' },
        scopes: full,
      })
      assert.deepEqual(answer.json(), { ...user, name: 'Bo', updatedAt: answer.json().updatedAt })
    })

    it('404 when there is no such user, 403 without users:write', async () => {
      const payload = { name: 'Ada', email: fresh() }
      await is({ method: 'PUT', url: '/users/2147483647', payload }, 404, 'RESOURCE_NOT_FOUND')
      await is({ method: 'PUT', url: '/users/1', payload, scopes: 'users:read' }, 403, 'ACCESS_DENIED')
    })
  })

  describe('PATCH /users/{id}', () => {
    const patch = (id: number, payload: object) => send({ method: 'PATCH', url: `/users/${id}`, payload, scopes: full })

    it('200: null removes an optional field; other fields do not change', async () => {
      const { id, name, email } = await create()
      const { address, phone, ...rest } = (await patch(id, { address: null, phone: null })).json()
      assert.deepEqual([address, phone, rest.name, rest.email], [undefined, undefined, name, email])
    })

    it('200; hidden fields keep their values', async () => {
      const { id } = await create()
      const answer = await send({
        method: 'PATCH',
        url: `/users/${id}`,
        payload: { name: 'Bo' },
        scopes: 'users:write',
      })
      assert.deepEqual([answer.statusCode, answer.json().address], [200, undefined])
      assert.equal((await send({ url: `/users/${id}`, scopes: full })).json().address, '1 Main St')
    })

    it('400 for null in a required field, 422 for an invalid value', async () => {
      const { id } = await create()
      assert.equal((await patch(id, { email: null })).json().errorCode, 'MISSING_REQUIRED_FIELD')
      assert.equal((await patch(id, { email: 'x', phone: 'y' })).json().errorCode, 'VALIDATION_ERROR')
    })

    it('400 and 422 for invalid members take precedence over 404 and 412', async () => {
      const { id } = await create()
      for (const [payload, status] of [
        [{ email: null }, 400],
        [{ name: 7 }, 400],
        [{ phone: 'y' }, 422],
      ] as const) {
        const outdated = { method: 'PATCH' as const, payload, scopes: full, headers: { 'if-match': '"99"' } }
        assert.equal((await send({ ...outdated, url: `/users/${id}` })).statusCode, status)
        assert.equal((await send({ ...outdated, url: '/users/999999' })).statusCode, status)
      }
      const sound = { method: 'PATCH' as const, payload: { phone: '1' }, scopes: full, headers: { 'if-match': '"99"' } }
      assert.equal((await send({ ...sound, url: `/users/${id}` })).statusCode, 412)
    })
  })

  describe('DELETE /users/{id}', () => {
    it('204, then 404; 403 without users:write', async () => {
      const { id } = await create()
      await is({ method: 'DELETE', url: `/users/${id}`, scopes: 'users:read' }, 403, 'ACCESS_DENIED')
      assert.equal((await send({ method: 'DELETE', url: `/users/${id}` })).statusCode, 204)
      await is({ url: `/users/${id}` }, 404, 'RESOURCE_NOT_FOUND')
    })
  })

  describe('GET /users', () => {
    it('200 with only id, name and email of each user, even for users:read:full', async () => {
      const { id, name, email } = await create({ name: 'Listed Once' })
      for (const scopes of ['users:read', full]) {
        const answer = await send({ url: '/users?name=listed%20once', scopes })
        assert.deepEqual(answer.json(), [{ id, name, email }])
        assert.equal(answer.headers['cache-control'], 'private, no-cache')
      }
    })

    it('200 without hidden fields even if `fields` or filters name them, 400 if `sort` does (T-API-04)', async () => {
      const { id } = await create({ name: 'Hidden Once', phone: '999' })
      const query = 'name=hidden%20once&fields=id,phone,address,emailKey'
      assert.deepEqual((await send({ url: `/users?${query}`, scopes: full })).json(), [{ id }])
      assert.equal((await send({ url: '/users?name=hidden%20once&phone=1' })).json().length, 1)
      await is({ url: '/users?sort=phone' }, 400, 'INVALID_INPUT')
    })

    it('200 with the user that has the given e-mail address, ignoring case', async () => {
      const { id, email } = await create()
      const found = await send({ url: `/users?email=${encodeURIComponent(email.toUpperCase())}` })
      assert.deepEqual(
        found.json().map((user: User) => user.id),
        [id],
      )
    })
  })
})
