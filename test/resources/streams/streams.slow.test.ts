import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { expireChanges } from '../../../src/storage/row-changes/watch.ts'
import { appOn, everyScope, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { openEventStream, originOf } from '../../support/event-streams.ts'

const bearer = token(everyScope)
const merge = { 'content-type': 'application/merge-patch+json' }

forEachEngine((engine) => {
  describe('GET /products with Accept: text/event-stream', () => {
    const service = appOn(engine, { streams: { perAccount: 3, historySeconds: 3_600 } })
    let origin: string
    before(async () => {
      origin = await originOf(service.app)
    })
    const open = (path: string, headers = {}, as: string | null = bearer) => openEventStream(origin + path, as, headers)
    const create = async (name: string, price = 10) => {
      const created = await service.send({ method: 'POST', url: '/products', payload: { name, price } })
      assert.equal(created.statusCode, 201, created.body)
      return created.json()
    }
    const patch = async (id: number, payload: object) =>
      (await service.send({ method: 'PATCH', url: `/products/${id}`, payload, headers: merge })).json()
    const put = async (id: number, payload: object) =>
      (await service.send({ method: 'PUT', url: `/products/${id}`, payload })).json()
    const remove = (id: number) => service.send({ method: 'DELETE', url: `/products/${id}` })

    it('200 without caching or buffering, starting with an id and a retry time', async () => {
      const stream = await open('/products')
      assert.equal(stream.status, 200)
      assert.equal(stream.headers['content-type'], 'text/event-stream')
      assert.equal(stream.headers['cache-control'], 'no-store')
      assert.equal(stream.headers['x-accel-buffering'], 'no')
      assert.equal(stream.headers.etag, undefined)
      const first = await stream.next()
      assert.equal(first?.retry, '2000')
      assert.match(String(first?.id), /^\d+-[\w-]{8}$/)
      await stream.close()
    })

    it('200 with each change to a row, in order', async () => {
      const stream = await open('/products')
      const created = await create('Hammer')
      assert.deepEqual((await stream.event())?.data, created)
      const patched = await patch(created.id, { price: 12 })
      const replaced = await put(created.id, { name: 'Mallet', price: 12 })
      await remove(created.id)
      const events = [await stream.event(), await stream.event(), await stream.event()]
      assert.deepEqual(
        events.map((one) => [one?.event, one?.data]),
        [
          ['updated', patched],
          ['updated', replaced],
          ['removed', { id: created.id }],
        ],
      )
      await stream.close()
    })

    it('200 with changes to rows that match the filters, and `removed` when a row no longer matches', async () => {
      const stream = await open('/products?minPrice=100&q=SAW')
      const { id: other } = await create('Hammer', 200)
      const { id } = await create('Chainsaw', 50)
      await patch(id, { price: 150 })
      await put(id, { name: 'Chain saw', price: 160 })
      await patch(other, { price: 300 })
      await put(id, { name: 'Chain', price: 170 })
      await patch(id, { price: 180 })
      await patch(id, { name: 'Jigsaw' })
      await remove(id)
      await remove(other)
      const events = [await stream.event(), await stream.event(), await stream.event(), await stream.event()]
      assert.deepEqual(
        [...events, await stream.event()].map((one) => [one?.event, one?.data?.name ?? one?.data?.id]),
        [
          ['updated', 'Chainsaw'],
          ['updated', 'Chain saw'],
          ['removed', id],
          ['updated', 'Jigsaw'],
          ['removed', id],
        ],
      )
      await stream.close()
    })

    it('200 with only the selected fields', async () => {
      const stream = await open('/products?fields=name,price&name=vise')
      await create('Vise', 70)
      assert.deepEqual((await stream.event())?.data, { name: 'Vise', price: 70 })
      await stream.close()
    })

    it('200 with a new row on the streams of every version', async () => {
      const [v1, v2] = [await open('/v1/products?name=Level'), await open('/v2/products?name=Level')]
      const created = await create('Level')
      assert.deepEqual((await v1.event())?.data, created)
      assert.equal((await v2.event())?.data?.id, created.id)
      await v1.close()
      await v2.close()
    })

    it('200 with every change after the Last-Event-ID, both for a list and for a row', async () => {
      const { id } = await create('Anvil')
      const first = await open(`/products?name=Anvil`)
      await patch(id, { price: 1 })
      const seen = (await first.event())?.id as string
      await first.close()
      for (let price = 2; price < 6; price++) await patch(id, { price })
      for (const path of ['/products?name=Anvil', `/products/${id}`]) {
        const resumed = await open(path, { 'last-event-id': seen })
        await patch(id, { price: 6 })
        const prices = []
        for (let count = 0; count < 5; count++) prices.push((await resumed.event())?.data?.price)
        assert.deepEqual(prices, [2, 3, 4, 5, 6])
        await resumed.close()
      }
    })

    for (const unknown of ['1-AAAAAAAA', '999999-AAAAAAAA', 'nonsense', '7']) {
      it(`200 with a reset event for the unknown Last-Event-ID ${unknown}, then new changes`, async () => {
        const stream = await open('/products?name=Plane', { 'last-event-id': unknown })
        const reset = await stream.event()
        assert.deepEqual([reset?.event, reset?.data], ['reset', {}])
        await create('Plane')
        assert.equal((await stream.event())?.event, 'created')
        await stream.close()
      })
    }

    it('200 with a reset event if the log no longer contains the Last-Event-ID, then new changes', async () => {
      const path = '/products?name=Gimlet'
      const first = await open(path)
      await create('Gimlet')
      const seen = String((await first.event())?.id)
      await create('Gimlet')
      await first.close()
      const kept = await open(path, { 'last-event-id': seen })
      assert.equal((await kept.event())?.event, 'created')
      await kept.close()
      await expireChanges(service.db, () => service.clock.now + 3_600_001, 3_600_000)
      const expired = await open(path, { 'last-event-id': seen })
      assert.equal((await expired.event())?.event, 'reset')
      const created = await create('Gimlet')
      assert.deepEqual((await expired.event())?.data, created)
      await expired.close()
    })

    it('200 without a token if the list is public', async () => {
      const stream = await open('/products?name=Rasp', {}, null)
      await create('Rasp')
      assert.equal((await stream.event())?.data?.name, 'Rasp')
      await stream.close()
    })

    it('200 for HEAD, without a body', async () => {
      const accept = { accept: 'text/event-stream' }
      const headed = await service.send({ method: 'HEAD', url: '/products', headers: accept })
      assert.equal(headed.statusCode, 200)
      assert.equal(headed.headers['content-type'], 'text/event-stream')
      assert.equal(headed.body, '')
    })

    it('200 with JSON unless Accept prefers text/event-stream', async () => {
      for (const accept of ['*/*', 'application/json', 'application/json, text/event-stream', 'application/*', '']) {
        const page = await service.send({ method: 'GET', url: '/products', headers: { accept } })
        assert.match(String(page.headers['content-type']), /^application\/json/, accept)
        assert.match(String(page.headers.vary), /Accept/)
      }
      const preferred = await open('/products', { accept: 'text/event-stream, application/json;q=0.5' })
      assert.equal(preferred.headers['content-type'], 'text/event-stream')
      await preferred.close()
    })

    it('406 if only text/html is accepted, and on routes without streams', async () => {
      const html = await service.send({ method: 'GET', url: '/products', headers: { accept: 'text/html' } })
      assert.equal(html.statusCode, 406)
      const accept = { accept: 'text/event-stream' }
      const webhooks = await service.send({ method: 'GET', url: '/api/webhooks', headers: accept })
      assert.equal(webhooks.statusCode, 406)
    })

    it('400 for an invalid filter', async () => {
      const stream = await open('/products?minPrice=much')
      assert.equal(stream.status, 400)
      await stream.body.dump()
    })

    it('401 without a valid token, 403 without the read scope', async () => {
      for (const [as, status] of [
        ['expired', 401],
        [null, 401],
        [token('products:write'), 403],
      ] as const) {
        const stream = await open('/users', {}, as)
        assert.equal(stream.status, status)
        await stream.body.dump()
      }
    })

    it('429 with Retry-After if the account has too many open streams, until they are closed', async () => {
      const streams = [await open('/products'), await open('/products'), await open('/products')]
      const refused = await open('/products')
      assert.equal(refused.status, 429)
      assert.equal(refused.headers['retry-after'], '5')
      assert.equal(refused.headers['x-accel-buffering'], undefined)
      await refused.body.dump()
      const other = await open('/products', {}, token(everyScope, 'cli_other'))
      assert.equal(other.status, 200)
      for (const one of [...streams, other]) await one.close()
      for (;;) {
        const again = await open('/products')
        await again.close()
        if (again.status === 200) break
      }
    })
  })

  describe('GET /products/{id} with Accept: text/event-stream', () => {
    const service = appOn(engine)
    let origin: string
    before(async () => {
      origin = await originOf(service.app)
    })
    const create = async () =>
      (await service.send({ method: 'POST', url: '/products', payload: { name: 'Drill', price: 1 } })).json().id

    it('200 with the changes to this row only; the stream ends when the row is removed', async () => {
      const [id, other] = [await create(), await create()]
      const stream = await openEventStream(`${origin}/products/${id}`, bearer)
      for (const one of [other, id]) {
        const url = `/products/${one}`
        await service.send({ method: 'PATCH', url, payload: { price: one }, headers: merge })
      }
      const updated = await stream.event()
      const row = (await service.send({ method: 'GET', url: `/products/${id}` })).json()
      assert.deepEqual([updated?.event, updated?.data], ['updated', row])
      await service.send({ method: 'DELETE', url: `/products/${id}` })
      const removed = await stream.event()
      assert.deepEqual([removed?.event, removed?.data], ['removed', { id }])
      assert.equal(await stream.event(), undefined)
    })

    it('404 for a row that does not exist', async () => {
      const stream = await openEventStream(`${origin}/products/999`, bearer)
      assert.equal(stream.status, 404)
      await stream.body.dump()
    })
  })
})
