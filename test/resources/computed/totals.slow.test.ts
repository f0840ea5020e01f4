import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, it } from 'node:test'
import { reportKinds } from '../../../src/mount-versions.ts'
import { createClient } from '../../../src/oauth/clients/clients.ts'
import { collection, service as define, Ref, Title, Type } from '../../../src/plinth.ts'
import { type ReportKind, readOf } from '../../../src/reports/report-types.ts'
import { sealer } from '../../../src/storage/encryption.ts'
import { openSnapshot } from '../../../src/storage/open.ts'
import { appOn, type TestApp, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { definition, scopes } from './service.ts'

const seal = sealer(Buffer.alloc(32, 1), randomBytes)

forEachEngine((engine) => {
  describe('a sum or count', () => {
    const service = appOn(engine, { definition })
    const send: TestApp['send'] = (request) => service.send({ scopes, ...request })
    const create = async (path: string, payload: object): Promise<number> => {
      const answer = await send({ method: 'POST', url: path, payload })
      assert.equal(answer.statusCode, 201, answer.body)
      return answer.json().id
    }
    const invoice = (more = {}) => create('/invoices', { title: 'A', status: 'draft', ...more })
    const line = (invoiceId: number | undefined, amount: string, more = {}) =>
      create('/lines', { ...(invoiceId && { invoiceId }), text: 'Work', amount, ...more })
    /** Returns an invoice's total, line count, units and revision. */
    const shown = async (id: number) => {
      const { total, lineCount, units, updatedAt } = (await send({ url: `/invoices/${id}` })).json()
      const { etag } = (await send({ url: `/invoices/${id}` })).headers
      return { sums: [total, lineCount, units], revision: Number(/\d+/.exec(String(etag))?.[0]), updatedAt }
    }
    const sums = async (id: number) => (await shown(id)).sums
    const change = (method: 'PUT' | 'PATCH' | 'DELETE', url: string, payload?: object) =>
      send({ method, url, ...(payload && { payload }) })

    it('is zero if no row refers to its row', async () => assert.deepEqual(await sums(await invoice()), ['0.00', 0, 0]))

    it('reflects rows that are created, changed, moved or deleted, each time with a new revision', async () => {
      const [one, other] = [await invoice(), await invoice()]
      const id = await line(one, '12.50', { units: 3 })
      const second = await line(one, '-2.5')
      assert.deepEqual(await shown(one).then(({ sums, revision }) => [sums, revision]), [['10.00', 2, 3], 3])
      service.clock.now += 1_000
      assert.equal((await change('PATCH', `/lines/${id}`, { amount: '0.05' })).statusCode, 200)
      assert.deepEqual(await sums(one), ['-2.45', 2, 3])
      assert.equal((await shown(one)).updatedAt, new Date(service.clock.now).toISOString())
      assert.equal((await change('PATCH', `/lines/${id}`, { text: 'Other' })).statusCode, 200)
      assert.equal((await shown(one)).revision, 5)
      const moved = { invoiceId: other, text: 'Work', amount: '0.05', units: 3 }
      assert.equal((await change('PUT', `/lines/${id}`, moved)).statusCode, 200)
      assert.deepEqual(
        [await sums(one), await sums(other)],
        [
          ['-2.50', 1, 0],
          ['0.05', 1, 3],
        ],
      )
      assert.deepEqual([(await shown(one)).revision, (await shown(other)).revision], [6, 2])
      assert.equal((await change('PATCH', `/lines/${id}`, { invoiceId: null })).statusCode, 200)
      assert.deepEqual([await sums(other), (await shown(other)).revision], [['0.00', 0, 0], 3])
      assert.equal((await change('DELETE', `/lines/${second}`)).statusCode, 204)
      assert.deepEqual([await sums(one), (await shown(one)).revision], [['0.00', 0, 0], 7])
    })

    it('cannot be written, and keeps its value when its row is replaced by PUT', async () => {
      const id = await invoice({ total: '7.00', lineCount: 7 })
      await line(id, '1.00')
      const put = await change('PUT', `/invoices/${id}`, { title: 'B', status: 'sent', total: '9.00' })
      assert.deepEqual([put.json().total, put.json().lineCount], ['1.00', 1])
      assert.deepEqual(await sums(id), ['1.00', 1, 0])
    })

    it('does not change when a write is refused with 404, 412 or 422', async () => {
      const id = await invoice()
      const only = await line(id, '1.00')
      const before = await shown(id)
      const statuses = [
        (await change('DELETE', '/lines/99999')).statusCode,
        (await send({ method: 'DELETE', url: `/lines/${only}`, headers: { 'if-match': '"9"' } })).statusCode,
        (await send({ method: 'PATCH', url: `/lines/${only}`, payload: { text: 'B' }, headers: { 'if-match': '"9"' } }))
          .statusCode,
        (await send({ method: 'POST', url: '/lines', payload: { invoiceId: 99_999, text: 'A', amount: '1.00' } }))
          .statusCode,
        (await change('PATCH', `/lines/${only}`, { invoiceId: 99_999 })).statusCode,
      ]
      assert.deepEqual(statuses, [404, 412, 412, 422, 422])
      assert.deepEqual(await shown(id), before)
    })

    it('422 for a write that would make it too large, naming the summed field; nothing changes', async () => {
      const id = await invoice()
      const only = await line(id, '9999.00', { units: 1 })
      const before = await shown(id)
      const payload = { invoiceId: id, text: 'Work', amount: '1.00' }
      const post = await send({ method: 'POST', url: '/lines', payload })
      const message = `makes total of the invoice ${id} larger than 9999.99`
      assert.deepEqual([post.statusCode, post.json().errors], [422, [{ field: 'amount', message }]])
      const other = await line(undefined, '1.00', { units: Number.MAX_SAFE_INTEGER })
      const patch = await change('PATCH', `/lines/${other}`, { invoiceId: id, amount: '0.99' })
      assert.deepEqual([patch.statusCode, patch.json().errors[0].field], [422, 'units'], patch.body)
      assert.deepEqual(await shown(id), before)
      const lowest = await line(id, '-9999.99')
      await line(id, '-999.00')
      const removed = await change('DELETE', `/lines/${only}`)
      assert.deepEqual([removed.statusCode, removed.json().errors[0].field], [422, 'amount'])
      assert.deepEqual(await sums(id), ['-999.99', 3, 1])
      assert.equal((await change('DELETE', `/lines/${lowest}`)).statusCode, 204)
    })

    it('reflects a cascading deletion with a single new revision', async () => {
      const [id, good] = [await invoice(), await create('/goods', { name: 'Desk' })]
      await line(id, '5.00', { goodId: good })
      await line(id, '3.00', { goodId: good })
      await line(id, '1.00')
      const before = (await shown(id)).revision
      assert.equal((await change('DELETE', `/goods/${good}`)).statusCode, 204)
      assert.deepEqual([await sums(id), (await shown(id)).revision], [['1.00', 1, 0], before + 1])
      const customerId = await create('/customers', { name: 'Ada' })
      const owned = await invoice({ customerId })
      await line(owned, '1.00')
      assert.equal((await send({ url: `/customers/${customerId}` })).json().invoiceCount, 1)
      assert.equal((await change('DELETE', `/customers/${customerId}`)).statusCode, 204)
      assert.equal((await send({ url: `/invoices/${owned}` })).statusCode, 404)
    })

    it('can be used to filter, sort and page lists', async () => {
      const paid = { status: 'paid' }
      const ids = [await invoice(paid), await invoice(paid), await invoice(paid)]
      for (const [at, amount] of ['7001.50', '7000.25', '7002.00'].entries()) await line(ids[at], amount)
      await line(ids[0], '0.00')
      const found = async (query: string) => {
        const answer = await send({ url: `/invoices?status=paid&${query}` })
        assert.equal(answer.statusCode, 200, answer.body)
        return answer.json().map(({ id }: { id: number }) => ids.indexOf(id))
      }
      assert.deepEqual(await found('total=7001.5'), [0])
      assert.deepEqual(await found('minTotal=7000&maxTotal=7001.50&sort=total'), [1, 0])
      assert.deepEqual(await found('total[from]=7000&sort=-total'), [2, 0, 1])
      assert.deepEqual((await found('sort=-lineCount&total[from]=7000'))[0], 0)
      const page = await send({ url: '/v2/invoices?status=paid&total[from]=7000&sort=total&limit=2' })
      const next = await send({ url: page.json().next })
      assert.deepEqual(
        next.json().items.map(({ total }: { total: string }) => total),
        ['7002.00'],
      )
      assert.equal((await send({ url: '/invoices?total=x' })).statusCode, 400)
    })

    it('is a report column and can be used to filter the report', async () => {
      const id = await invoice()
      await line(id, '8123.45')
      const kind = reportKinds(definition).find(({ name }) => name === 'invoices') as ReportKind
      const snapshot = await openSnapshot(service.db.url)
      const query = readOf(
        service.db,
        kind,
        { filter: { total: '8123.45' } },
        { clientId: '', subject: '', isAdmin: false },
      )
      const [row] = (await Array.fromAsync(snapshot.pages(query)).finally(snapshot.close)).flat()
      const names = kind.columns.map(({ name }) => name)
      assert.deepEqual([row?.[names.indexOf('total')], row?.[names.indexOf('lineCount')]], ['8123.45', 1])
      assert.ok(!names.includes('overdue'))
    })

    it('loses no updates under concurrent writes', async () => {
      const [one, other] = [await invoice(), await invoice()]
      const ids = await Promise.all(Array.from({ length: 12 }, () => line(one, '1.10', { units: 1 })))
      assert.deepEqual(await sums(one), ['13.20', 12, 12])
      const answers = await Promise.all(
        ids.map((id, at) => {
          if (at % 3 === 0) return change('DELETE', `/lines/${id}`)
          return change('PATCH', `/lines/${id}`, at % 3 === 1 ? { invoiceId: other } : { amount: '2.00' })
        }),
      )
      assert.deepEqual([...new Set(answers.map(({ statusCode }) => statusCode))].toSorted(), [200, 204])
      assert.deepEqual(
        [await sums(one), await sums(other)],
        [
          ['8.00', 4, 4],
          ['4.40', 4, 4],
        ],
      )
    })

    it('is included in expanded rows and in events about its row', async () => {
      const { db } = service
      const listener = { id: 'cli_listener', name: 'Listener', scopes: scopes.split(' ') }
      await createClient(db, seal, definition.scopes, { ...listener, grants: ['client_credentials'] })
      const hook = await service.send({
        ...{ method: 'POST', url: '/api/webhooks', token: token(`webhooks:write ${scopes}`, 'cli_listener') },
        payload: { event: 'invoice.updated', callbackUrl: 'http://127.0.0.1:9/1' },
      })
      assert.equal(hook.statusCode, 201, hook.body)
      const id = await invoice()
      const only = await line(id, '4.00')
      const expanded = (await send({ url: `/lines/${only}?expand=invoice` })).json()
      assert.deepEqual([expanded.invoice.total, expanded.invoice.overdue], ['4.00', false])
      service.clock.now += 1_000
      await change('DELETE', `/lines/${only}`)
      const events = await db.read
        .selectFrom('events')
        .select('body')
        .where('type', '=', 'invoice.updated')
        .orderBy('id')
        .execute()
      const bodies = events.map(({ body }) => JSON.parse(String(body))).filter((body) => body.id === id)
      assert.deepEqual(
        bodies.map(({ total, lineCount, overdue }) => [total, lineCount, overdue]),
        [
          ['4.00', 1, false],
          ['0.00', 0, false],
        ],
      )
    })
  })

  describe('a sum over rows that are deleted together', () => {
    const orders = collection({
      path: '/orders',
      noun: 'order',
      body: Type.Object({ title: Title }),
      computed: { weight: { sum: 'parts.weight', as: Type.Integer() } },
    })
    const parts = collection({
      path: '/parts',
      noun: 'part',
      body: Type.Object({
        orderId: Ref(orders, { onDelete: 'cascade' }),
        parentId: Type.Optional(Ref('self', { onDelete: 'cascade' })),
        weight: Type.Integer(),
      }),
    })
    const ordered = define({ resources: [orders, parts] })
    const app = appOn(engine, { definition: ordered })
    const all = [...Object.keys(ordered.scopes), 'webhooks:write'].join(' ')
    const post = async (url: string, payload: object): Promise<number> => {
      const created = await app.send({ method: 'POST', url, payload, scopes: all })
      assert.equal(created.statusCode, 201, created.body)
      return created.json().id
    }
    it('causes one update event, with the new sum', async () => {
      await post('/api/webhooks', { event: 'order.updated', callbackUrl: 'http://127.0.0.1:9/1' })
      const orderId = await post('/orders', { title: 'A' })
      const root = await post('/parts', { orderId, weight: 1 })
      await post('/parts', { orderId, parentId: root, weight: 2 })
      await post('/parts', { orderId, parentId: root, weight: 4 })
      await post('/parts', { orderId, weight: 8 })
      await app.db.write((tx) => tx.deleteFrom('events').execute())
      assert.equal((await app.send({ method: 'DELETE', url: `/parts/${root}`, scopes: all })).statusCode, 204)
      const events = await app.db.read.selectFrom('events').select('body').execute()
      assert.deepEqual(
        events.map(({ body }) => JSON.parse(String(body)).weight),
        [8],
      )
    })
  })
})
