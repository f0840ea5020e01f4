import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { forEachEngine } from '../../support/engines.ts'
import { openEventStream, originOf } from '../../support/event-streams.ts'
import { batchServiceOn, type Item, north, post, ref, south } from './service.ts'

interface Result {
  status: number
  location?: string
  etag?: string
  body?: Item
}

forEachEngine((engine) => {
  describe('POST /api/batch', () => {
    const service = batchServiceOn(engine, { streams: { perAccount: 3, historySeconds: 3_600 } })
    const { send, read, customer, invoice, counts } = service.api
    const results = async (items: Item[], headers: Record<string, string> = {}, url = '/v2/api/batch') => {
      const response = await send({ method: 'POST', url, payload: { items }, headers })
      assert.equal(response.statusCode, 200, response.body)
      return response.json().items as [Result, Result, Result, Result]
    }
    const invoiceItems = () => [post('customers', customer()), post('invoices', { customerId: ref('0.id') })]

    it('200 with the status, location, entity tag and body of each new row, the same as GET returns', async () => {
      const made = await results([
        ...invoiceItems(),
        post('lines', { invoiceId: ref('1.id'), text: 'one', amount: '2.50' }),
        post('lines', { invoiceId: ref('1.id'), text: 'two', amount: 3 }),
      ])
      for (const { status, location = '', etag, body } of made) {
        assert.equal(status, 201)
        const single = await send({ url: location })
        assert.deepEqual([single.json(), single.headers.etag], [body, etag])
      }
      const [ada, bill, one] = made
      assert.equal(bill.location, `/v2/invoices/${bill.body?.id}`)
      assert.deepEqual([bill.body?.customerId, one.body?.invoiceId], [ada.body?.id, bill.body?.id])
      assert.deepEqual([bill.body?.total, bill.etag, one.body?.text], ['5.50', '"3"', 'ONE'])
    })

    it('200 for every method, with each row in its state after the whole batch', async () => {
      const { customerId, id, lineId } = await invoice()
      const [changed, replaced, removed, added] = await results([
        { method: 'PATCH', collection: 'invoices', id, body: { note: 'first' } },
        { method: 'PUT', collection: 'customers', id: customerId, body: customer({ name: 'Grace' }) },
        { method: 'DELETE', collection: 'lines', id: lineId },
        post('lines', { invoiceId: id, text: 'new', amount: '7' }),
      ])
      assert.deepEqual([changed.status, replaced.status, removed, added.status], [200, 200, { status: 204 }, 201])
      assert.deepEqual([changed.body?.total, changed.body?.note], ['7.00', 'a line was removed'])
      assert.deepEqual(await read(`/v2/invoices/${id}`), changed.body)
      assert.equal((await send({ url: `/v2/invoices/${id}` })).headers.etag, changed.etag)
      assert.equal((await read(`/v2/customers/${customerId}`)).name, 'Grace')
      assert.equal((await send({ url: `/v2/lines/${lineId}` })).statusCode, 404)
    })

    it('200 for several changes to one row, without bodies if the last item deletes the row', async () => {
      const [made, changed, again, removed] = await results([
        post('customers', customer({ name: 'One' })),
        { method: 'PATCH', collection: 'customers', id: ref('0.id'), body: { name: 'Two' } },
        { method: 'PATCH', collection: 'customers', id: ref('1.id'), ifMatch: '"2"', body: { name: 'Three' } },
        { method: 'DELETE', collection: 'customers', id: ref('2.id'), ifMatch: '"3"' },
      ])
      assert.deepEqual([made.status, made.body, made.etag], [201, undefined, undefined])
      assert.deepEqual([changed, again, removed], [{ status: 200 }, { status: 200 }, { status: 204 }])
      assert.equal((await send({ url: String(made.location) })).statusCode, 404)
    })

    it('200 with each reference resolved to the value that the field had right after the referenced item was written', async () => {
      const [first, second, copy] = await results([
        post('customers', customer({ name: 'Before' })),
        { method: 'PATCH', collection: 'customers', id: ref('0.id'), body: { name: 'After' } },
        post('customers', { name: ref('0.name'), email: ref('1.updatedAt') }),
      ])
      assert.deepEqual([first.body?.name, second.body?.name], ['After', 'After'])
      assert.deepEqual([copy.body?.name, copy.body?.email], ['Before', second.body?.updatedAt])
    })

    it('200 with updated sums, referenced decimals in the scale of the new field, and no gap in numbers after a rolled-back batch', async () => {
      const [, one] = await results(invoiceItems())
      const refused = [...invoiceItems(), post('lines', { invoiceId: ref('1.id'), text: 'refused', amount: '1' })]
      assert.equal((await service.api.batch(refused)).statusCode, 422)
      const [, two, line] = await results([
        ...invoiceItems(),
        post('lines', { invoiceId: one.body?.id, text: 'sum', amount: '12.5' }),
        post('lines', { invoiceId: ref('1.id'), text: 'copy', amount: ref('2.amount') }),
      ])
      const number = (result: Result) => Number(String(result.body?.reference).slice(2))
      assert.equal(number(two), number(one) + 1)
      assert.deepEqual([line.body?.amount, two.body?.total], ['12.50', '12.50'])
    })

    it('200 with the version’s names in bodies, references and locations', async () => {
      const [, bill, line] = await results(
        [
          post('customers', customer()),
          post('invoices', { clientId: ref('0.id'), note: 'v1' }),
          post('lines', { invoiceId: ref('1.id'), text: ref('1.number'), amount: '1' }),
        ],
        {},
        '/v1/api/batch',
      )
      assert.equal(bill.location, `/v1/invoices/${bill.body?.id}`)
      assert.deepEqual(await read(`/v1/invoices/${bill.body?.id}`), bill.body)
      assert.deepEqual([line.body?.text, bill.body?.status], [bill.body?.number, undefined])
    })

    it('200 with 100 items', async () => {
      const { id } = await invoice()
      const items = Array.from({ length: 100 }, (_, at) =>
        post('lines', { invoiceId: id, text: `n${at}`, amount: '1' }),
      )
      assert.equal((await results(items)).length, 100)
      assert.equal((await read(`/v2/invoices/${id}`)).total, '101.00')
    })

    it('200 or 503 for concurrent batches that write in opposite orders; only those with 200 are stored', async () => {
      const [one, two] = [await invoice(), await invoice()]
      const line = (invoiceId: number) => post('lines', { invoiceId, text: 'x', amount: '1' })
      const orders = [
        [line(one.id), line(two.id)],
        [line(two.id), line(one.id)],
      ]
      const sent = Array.from({ length: 12 }, (_, at) => service.api.batch(orders[at % 2]))
      const statuses = (await Promise.all(sent)).map(({ statusCode }) => statusCode)
      assert.deepEqual(
        statuses.filter((status) => status !== 200 && status !== 503),
        [],
      )
      const written = statuses.filter((status) => status === 200).length
      assert.ok(written > 0)
      // PostgreSQL resolves a deadlock by aborting one of the transactions (40P01).
      const faults = service.faults.splice(0) as { code?: string }[]
      assert.deepEqual(
        faults.filter(({ code }) => code !== '40P01'),
        [],
      )
      for (const { id } of [one, two]) assert.equal((await read(`/v2/invoices/${id}`)).total, `${written + 1}.00`)
    })

    it('200 with the stored response for an Idempotency-Key that was used before, and no second write', async () => {
      const headers = { 'idempotency-key': 'batch-1' }
      const items = invoiceItems()
      const first = await service.api.batch(items, headers)
      const before = await counts()
      const again = await service.api.batch(items, headers)
      assert.deepEqual([again.statusCode, again.headers['idempotent-replayed']], [200, 'true'])
      assert.deepEqual([again.json(), await counts()], [first.json(), before])
      assert.equal((await service.api.batch(invoiceItems(), headers)).statusCode, 422)
      await send({ method: 'DELETE', url: first.json().items[1].location })
      const gone = await service.api.batch(items, headers)
      assert.deepEqual([gone.statusCode, gone.json().errors[0].field], [404, 'items.1'])
    })

    it('200; later reads return the changed rows, lists and totals rather than cached ones', async () => {
      const { id, customerId } = await invoice()
      const paths = [`/v2/invoices/${id}`, '/v2/invoices?limit=200', `/v2/customers/${customerId}`]
      for (const path of [...paths, ...paths]) await read(path)
      await results([
        { method: 'PATCH', collection: 'invoices', id, body: { note: 'fresh' } },
        { method: 'PATCH', collection: 'customers', id: customerId, body: { name: 'Fresh' } },
        post('lines', { invoiceId: id, text: 'more', amount: '9' }),
      ])
      const [bill, list, ada] = await Promise.all(paths.map((path) => read(path)))
      const listed = list.find((one: Item) => one.id === id)
      assert.deepEqual([bill.total, listed.note, listed.total, ada.name], ['10.00', 'fresh', '10.00', 'Fresh'])
    })

    it('200 with one event per row, sent to webhooks and streams of callers who may read the row', async () => {
      const { id, lineId } = await invoice()
      const origin = await originOf(service.app)
      const [own, foreign] = [
        await openEventStream(`${origin}/v2/lines`, north),
        await openEventStream(`${origin}/v2/lines`, south),
      ]
      for (const event of ['customer.*', 'invoice.*', 'line.*']) {
        const payload = { event, callbackUrl: 'http://127.0.0.1:9/' }
        assert.equal((await send({ method: 'POST', url: '/api/webhooks', payload })).statusCode, 201)
      }
      const made = await results([
        post('customers', customer({ name: 'One' })),
        { method: 'PATCH', collection: 'customers', id: ref('0.id'), body: { name: 'Two' } },
        post('customers', customer()),
        { method: 'DELETE', collection: 'customers', id: ref('2.id') },
        // The line's access rule reads its invoice, which the next item deletes.
        { method: 'DELETE', collection: 'lines', id: lineId },
        { method: 'DELETE', collection: 'invoices', id },
        post('invoices', { customerId: ref('0.id') }),
        post('lines', { invoiceId: ref('6.id'), text: 'new', amount: '1' }),
      ] as Item[])
      const [, , , , , , bill, line] = made as unknown as Result[]
      const stored = await service.db.read.selectFrom('events').select(['type', 'body', 'facts']).execute()
      const ofRow = (type: string) => stored.filter((one) => one.type === type)
      assert.deepEqual(stored.map(({ type }) => type).toSorted(), [
        ...['customer.created', 'invoice.created', 'invoice.deleted', 'line.created', 'line.deleted'],
      ])
      assert.equal(JSON.parse(String(ofRow('customer.created')[0]?.body)).name, 'Two')
      assert.deepEqual(JSON.parse(String(ofRow('invoice.created')[0]?.body)).total, bill?.body?.total)
      assert.equal(JSON.parse(String(ofRow('line.deleted')[0]?.facts)).invoice.customer.tenant, 'north')
      const heard = [await own.event(), await own.event()]
      assert.deepEqual(
        heard.map((one) => [one?.event, one?.data?.id]).toSorted(),
        [
          ['removed', lineId],
          ['created', line?.body?.id],
        ].toSorted(),
      )
      // The other tenant's stream has received none of these events, so its first event is about its own line.
      const items = [
        post('customers', customer()),
        post('invoices', { customerId: ref('0.id') }),
        post('lines', { invoiceId: ref('1.id'), text: 'other', amount: '1' }),
      ]
      assert.equal((await service.api.batch(items, {}, { token: south })).statusCode, 200)
      assert.equal((await foreign.event())?.data?.text, 'OTHER')
      await Promise.all([own.close(), foreign.close()])
    })

    it('is documented with the version’s collections and the possible error statuses', async () => {
      const document = (await send({ url: '/v2/openapi.json' })).json()
      const { requestBody, responses } = document.paths['/api/batch'].post
      const { $ref } = requestBody.content['application/json'].schema
      const { items } = document.components.schemas[$ref.split('/').at(-1)].properties
      assert.deepEqual(items.items.properties.collection.enum, ['customers', 'invoices', 'lines', 'entries'])
      assert.deepEqual([items.minItems, items.maxItems], [1, 100])
      for (const status of ['200', '403', '404', '409', '412', '422', '428', '429'])
        assert.ok(responses[status], status)
    })
  })
})
