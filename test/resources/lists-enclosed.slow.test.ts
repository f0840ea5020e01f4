import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { builtIn } from '../../src/catalog/service.ts'
import { readConfig } from '../../src/config/config.ts'
import { nodeFacts } from '../../src/nodes/node.ts'
import { iso } from '../../src/storage/ids.ts'
import { appOn } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const scopes = [
  'admin reports:read reports:write webhooks:read webhooks:write',
  'users:read users:write products:read products:write books:write',
].join(' ')
const many = 5
/** The paths, without a version prefix, of all paginated lists except the deliveries of a webhook. */
const paged = [
  ...['users', 'products', 'books', 'api/deleted/products', 'api/deleted/books', 'api/reports', 'api/webhooks'],
  ...['api/users', 'api/clients', 'api/keys', 'api/audit', 'api/nodes'],
]

forEachEngine((engine) => {
  describe('lists of v2', () => {
    const service = appOn(engine)
    let webhookId: string
    const get = (url: string, headers: Record<string, string> = {}) => service.send({ url, scopes, headers })
    const post = async (url: string, payload: object) => {
      const answer = await service.send({ method: 'POST', url, payload, scopes })
      assert.ok([201, 202].includes(answer.statusCode), answer.body)
      return answer.json()
    }
    const remove = async (url: string) => {
      const answer = await service.send({ method: 'DELETE', url, scopes })
      assert.equal(answer.statusCode, 204, answer.body)
    }
    const facts = nodeFacts({
      ...{ config: readConfig({}), definition: builtIn, masterKey: Buffer.alloc(32, 1), version: '1.0.0' },
    })
    const addNode = async (n: number) => {
      const at = iso(service.clock.now - n * 1_000)
      const row = { id: `nod_${n}`, ...facts, clockAheadMs: 0, startedAt: at, heartbeatAt: at }
      await service.db.write((tx) => tx.insertInto('nodes').values(row).execute())
    }
    before(async () => {
      for (let n = 0; n < many; n++) {
        await post('/users', { name: `User ${n}`, email: `user${n}@plinth.test` })
        await post('/products', { name: `Product ${n}`, price: n })
        await post('/books', { title: `Book ${n}`, author: 'Ada' })
        await post('/api/reports', { reportType: 'books', format: 'csv' })
        webhookId = (await post('/api/webhooks', { event: '*', callbackUrl: `http://127.0.0.1:9/${n}` })).id
        await post('/api/clients', { name: `Client ${n}`, scopes: ['reports:read'], grants: ['client_credentials'] })
        await post('/api/keys', { name: `Key ${n}` })
        await remove(`/products/${(await post('/products', { name: `Deleted ${n}`, price: n })).id}`)
        await remove(`/books/${(await post('/books', { title: `Deleted ${n}`, author: 'Ada' })).id}`)
        await addNode(n)
      }
    })

    /** Reads a page; asserts that it has only three members, and that `next` and `prev` match the Link header. */
    const page = async (url: string) => {
      const answer = await get(url)
      assert.equal(answer.statusCode, 200, answer.body)
      const { items, next, prev, ...more } = answer.json()
      assert.deepEqual(more, {})
      const links = [...String(answer.headers.link).matchAll(/<([^>]+)>; rel="(next|prev)"/g)]
      const targets = Object.fromEntries(links.map(([, target, rel]) => [rel, target]))
      assert.deepEqual({ next, prev }, { next: targets.next ?? null, prev: targets.prev ?? null })
      return { items, next, prev }
    }
    const idOf = (item: Record<string, unknown>) => item.id ?? item.taskId ?? item.sequence

    for (const list of paged) {
      it(`200 for each page, following next to the end and prev back to the start: /v2/${list}`, async () => {
        const ids: unknown[] = []
        const urls: string[] = []
        let last = { next: `/v2/${list}?limit=2`, prev: null, items: [] }
        while (last.next !== null) {
          assert.match(last.next, new RegExp(`^/v2/${list}\\?limit=2`))
          urls.push(last.next)
          last = await page(last.next)
          ids.push(...last.items.map(idOf))
        }
        const whole = (await get(`/${list}?limit=200`)).json().map(idOf)
        assert.deepEqual(ids, whole, 'the items of v1, in their order')
        assert.ok(ids.length >= many && urls.length >= 3)
        const back: unknown[] = last.items.map(idOf)
        while (last.prev !== null) {
          last = await page(last.prev)
          back.unshift(...last.items.map(idOf))
        }
        assert.deepEqual(back, ids)
      })

      it(`200 with the same items as v1, with and without fields: /v2/${list}`, async () => {
        assert.deepEqual((await get(`/v2/${list}`)).json(), {
          items: JSON.parse((await get(`/v1/${list}`)).body.replaceAll('"/v1/', '"/v2/')),
          ...{ next: null, prev: null },
        })
        const { items } = await page(`/v2/${list}?fields=id,createdAt&limit=2`)
        const [narrow] = (await get(`/${list}?fields=id,createdAt&limit=1`)).json()
        assert.deepEqual(items[0], narrow)
        assert.ok(!('name' in narrow) && !('title' in narrow))
      })

      it(`304 for the current tag, which differs from v1’s; HEAD has the same tag and length: /v2/${list}`, async () => {
        const { headers, body } = await get(`/v2/${list}`)
        const etag = String(headers.etag)
        assert.match(etag, /^W\//)
        assert.notEqual(etag, (await get(`/${list}`)).headers.etag)
        const known = await get(`/v2/${list}`, { 'if-none-match': etag })
        assert.deepEqual([known.statusCode, known.body, known.headers.link], [304, '', headers.link])
        const head = await service.send({ method: 'HEAD', url: `/v2/${list}`, scopes })
        assert.deepEqual([head.headers.etag, head.headers['content-length']], [etag, String(Buffer.byteLength(body))])
      })
    }

    it('200 for each page of the deliveries of a webhook', async () => {
      for (let n = 0; n < 2; n++) await post(`/api/webhooks/${webhookId}/test`, {})
      const first = await page(`/v2/api/webhooks/${webhookId}/deliveries?limit=1`)
      const second = await page(String(first.next))
      assert.deepEqual([first.items.length, second.items.length, first.prev], [1, 1, null])
      assert.notEqual(first.items[0].id, second.items[0].id)
      assert.deepEqual((await page(String(second.prev))).items, first.items)
    })

    it('200 with all items for an unpaginated list', async () => {
      const urls = ['api/report-types', 'api/event-types', 'api/versions']
      for (const url of urls) {
        const items = (await get(`/v1/${url}`)).json()
        assert.ok(Array.isArray(items))
        assert.deepEqual((await get(`/v2/${url}`)).json(), { items, next: null, prev: null }, url)
      }
    })

    it('200 with no items for an empty list, and a count of 0 with Prefer: count=exact', async () => {
      const none = await get('/v2/products?minPrice=1000', { prefer: 'count=exact' })
      assert.deepEqual(none.json(), { items: [], next: null, prev: null })
      assert.equal(none.headers['x-total-count'], '0')
    })

    it('200 with the new price when a page is read again after a price change', async () => {
      const before = (await get('/v2/products?limit=3')).json()
      await service.send({ method: 'PATCH', url: `/v2/products/${before.items[0].id}`, payload: { price: 77 }, scopes })
      assert.equal((await get('/v2/products?limit=3')).json().items[0].price, 77)
    })

    it('200 without a list envelope for a single resource', async () => {
      const { items } = (await get('/v2/books?limit=1')).json()
      const book = (await get(`/v2/books/${items[0].id}`)).json()
      assert.deepEqual([book.title, book._links.self.href], ['Book 0', `/v2/books/${book.id}`])
    })

    it('400 INVALID_INPUT for a malformed cursor, and for a cursor from another list', async () => {
      const next = String((await get('/v2/products?limit=1')).json().next)
      const cursor = new URL(next, 'https://plinth.test').searchParams.get('cursor')
      assert.equal((await get(`/v2/products?limit=1&cursor=${cursor}`)).statusCode, 200)
      for (const url of [
        '/v2/users?cursor=x',
        ...['users', 'books'].map((one) => `/v2/${one}?limit=1&cursor=${cursor}`),
      ]) {
        const answer = await get(url)
        assert.deepEqual([answer.statusCode, answer.json().errorCode], [400, 'INVALID_INPUT'], url)
      }
    })
  })
})
