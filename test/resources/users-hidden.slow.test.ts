import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { appOn, type TestApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

type Request = Parameters<TestApp['send']>[0]

const at = '2026-02-01T10:20:30.400Z'
const user = { name: 'Ada', nameKey: 'ada', email: 'ada@plinth.test', emailKey: 'ada@plinth.test' }
const second = { name: 'Bo', nameKey: 'bo', email: 'bo@plinth.test', emailKey: 'bo@plinth.test' }
const common = { revision: 3, createdAt: at, updatedAt: at }

/** The values of the hidden fields in each of the two services, which are otherwise identical. */
const hidden = [
  { address: '1 Main Street', phone: '+49 30 111' },
  { address: null, phone: '222' },
]

const single = [
  '',
  'phone',
  'address',
  'phone,address',
  'id,phone',
  '*',
  'phone.length',
  'address.0',
  '__proto__.phone',
]
const lists = [
  ...[
    '',
    'phone=222',
    'phone=',
    'address=1%20Main%20Street',
    'Phone=222',
    'phone[]=222',
    'phone.eq=222',
    'phone_key=222',
  ],
  ...['q=Main', 'q=222', 'q=%25', 'q=a', 'name=222', 'email=222', 'minPhone=2', 'maxAddress=a', 'hasPhone=true'],
  ...['sort=phone', 'sort=-address', 'sort=name,phone', 'sort=id%20where%20phone', 'sort=-updatedAt', 'sort=-name'],
  ...['fields=phone', 'fields=id,address', 'fields=name,phone.x', 'fields=revision,view', 'limit=1&sort=email'],
  ...[
    'updatedAfter=2026-01-01T00:00:00Z&fields=phone',
    'cursor=eyJ4IjoxfQ',
    'where=phone',
    'include=phone',
    'expand=phone',
  ],
]
const conditions: Record<string, string>[] = [
  { 'if-none-match': '"3"' },
  { 'if-none-match': '"3.reduced"' },
  { 'if-none-match': '*' },
  { 'if-match': '"3"' },
  { 'if-match': '"3.reduced"' },
  { 'if-modified-since': 'Sun, 01 Feb 2026 10:20:30 GMT' },
  { prefer: 'count=exact' },
  { accept: 'application/json' },
  { range: 'bytes=0-10' },
]
const json = { 'content-type': 'application/json' }
const body = { name: 'Ada', email: 'ada@plinth.test' }
/** Must be sent in this order, because each write depends on the previous one. */
const writes: Request[] = [
  { method: 'PATCH', url: '/users/1', payload: {} },
  { method: 'PATCH', url: '/users/1', payload: { name: 'Ada L.' } },
  { method: 'PATCH', url: '/users/1', payload: { phone: { length: 1 } } },
  { method: 'PATCH', url: '/users/1', payload: { address: ['x'] } },
  { method: 'PATCH', url: '/users/1', payload: { phone: 'call me' } },
  { method: 'PATCH', url: '/users/1?fields=phone', payload: { name: 'Ada' } },
  { method: 'PATCH', url: '/users/1', payload: { name: 'Ada' }, headers: { 'if-match': '"2"' } },
  { method: 'PUT', url: '/users/1', payload: body },
  { method: 'PUT', url: '/users/1', payload: { ...body, phone: null } },
  { method: 'PUT', url: '/users/1?fields=address', payload: body },
  { method: 'PUT', url: '/users/1', payload: { ...body, email: 'bo@plinth.test' } },
  { method: 'PUT', url: '/users/1', payload: '{"name":', headers: json },
  { method: 'POST', url: '/users', payload: { ...body, phone: '222' } },
  { method: 'PATCH', url: '/users/1', payload: { phone: '222' } },
  { method: 'PATCH', url: '/users/1', payload: { address: null } },
  { method: 'PUT', url: '/users/1', payload: { ...body, phone: '1', address: 'x' } },
  { method: 'DELETE', url: '/users/1', headers: { 'if-match': '"1"' } },
  { method: 'DELETE', url: '/users/1' },
]

const reads: Request[] = [
  ...single.map((fields) => ({ url: `/users/1?fields=${fields}` })),
  ...lists.map((query) => ({ url: `/users?${query}` })),
  ...['/users/1', '/users', '/users?limit=1&sort=name'].flatMap((url) =>
    conditions.flatMap((headers) => [
      { url, headers },
      { url, headers, method: 'HEAD' as const },
    ]),
  ),
  ...['/users/1', '/users'].flatMap((url) => [
    { url, headers: { prefer: 'handling=strict' } },
    { url: `${url}?phone=222`, headers: { prefer: 'handling=strict' } },
  ]),
  { url: '/api/report-types', scopes: 'reports:read' },
]

forEachEngine((engine) => {
  describe('fields hidden from some callers (T-API-04)', () => {
    const services = [appOn(engine, { prefixes: [''] }), appOn(engine, { prefixes: [''] })]
    before(async () => {
      for (const [index, { db }] of services.entries()) {
        const rows = [user, second].map((row) => ({ ...row, ...hidden[index], ...common }))
        for (const row of rows) await db.write((tx) => tx.insertInto('users').values(row).execute())
      }
    })

    /** Returns the responses of both services, without the values that differ in every response. */
    const answers = async (request: Request, scopes: string) =>
      Promise.all(
        services.map(async (service) => {
          const { statusCode, headers, body } = await service.send({ scopes, ...request })
          const id = String(headers['x-request-id'])
          return { statusCode, body: body.replaceAll(id, '…'), headers: { ...headers, 'x-request-id': '', date: '' } }
        }),
      )
    const name = ({ method = 'GET', url, headers = {}, payload }: Request) =>
      [method, url, JSON.stringify(headers), JSON.stringify(payload)].join(' ')

    it('change the responses to callers who may see them', async () => {
      const [one, other] = await answers({ url: '/users/1' }, 'users:read users:read:full')
      assert.notEqual(one?.body, other?.body)
      assert.match(String(one?.body), /\+49 30 111/)
    })

    it('do not change responses to reads by callers who may not see them: 200, 304, 400, 412', async () => {
      const seen = new Set<number>()
      for (const request of reads) {
        const [one, other] = await answers(request, 'users:read')
        assert.deepEqual(one, other, name(request))
        assert.doesNotMatch(String(one?.body), /Main Street|"222"|\+49/, name(request))
        seen.add(one?.statusCode as number)
      }
      assert.deepEqual([...seen].sort(), [200, 304, 400, 412])
    })

    it('do not change responses to writes by callers who may not see them: 200, 204, 400, 409, 412, 422', async () => {
      const seen = new Set<number>()
      for (const request of writes) {
        const [one, other] = await answers(request, 'users:write')
        assert.deepEqual(one, other, name(request))
        seen.add(one?.statusCode as number)
      }
      assert.deepEqual([...seen].sort(), [200, 204, 400, 409, 412, 422])
    })
  })

  describe('the parameter `fields` (T-API-06)', () => {
    const service = appOn(engine, { prefixes: [''] })
    before(async () => {
      for (const title of ['Emma', 'Persuasion']) {
        await service.send({ method: 'POST', url: '/books', payload: { title, author: 'Jane Austen' } })
      }
    })
    const read = async (url: string) => (await service.send({ url, scopes: null })).json()

    it('200 with only the requested fields, even by dotted paths, of a resource or of each list item', async () => {
      assert.deepEqual(await read('/books/1?fields=title'), { title: 'Emma' })
      assert.deepEqual(await read('/books?fields=title'), [{ title: 'Emma' }, { title: 'Persuasion' }])
      assert.deepEqual(await read('/books?fields=_links.self.href,title'), [
        { title: 'Emma', _links: { self: { href: '/books/1' } } },
        { title: 'Persuasion', _links: { self: { href: '/books/2' } } },
      ])
      assert.deepEqual(await read('/books/2?fields=_links.self,nothing'), { _links: { self: { href: '/books/2' } } })
      assert.deepEqual(await read('/books?fields=nothing'), [{}, {}])
      assert.deepEqual(await read('/books?fields='), await read('/books'))
    })

    it('200 with 50 field names, 400 with 51, for a resource and for a list', async () => {
      const names = (count: number) => Array.from({ length: count }, (_, place) => `f${place}`).join()
      for (const url of ['/books/1', '/books']) {
        assert.equal((await service.send({ url: `${url}?fields=${names(50)}` })).statusCode, 200)
        for (const query of [`fields=${names(51)}`, 'fields=id&fields=title']) {
          const answer = await service.send({ url: `${url}?${query}` })
          assert.deepEqual([answer.statusCode, answer.json().errorCode], [400, 'INVALID_INPUT'], query)
        }
      }
    })

    it('gives each selection a separate cache entry and entity tag (T-HTTP-16)', async () => {
      const [whole, titles] = [
        await service.send({ url: '/books' }),
        await service.send({ url: '/books?fields=title' }),
      ]
      assert.notEqual(whole.headers.etag, titles.headers.etag)
      assert.deepEqual(await read('/books?fields=title'), titles.json())
      assert.deepEqual(await read('/books'), whole.json())
    })
  })
})
