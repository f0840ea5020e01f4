import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type TObject, Type } from 'typebox'
import { service } from '../../../src/definition/service.ts'
import { Line } from '../../../src/http/text-rules.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Decimal } from '../../../src/resources/decimal-fields.ts'
import { Ref } from '../../../src/resources/relations/ref.ts'
import { view } from '../../../src/resources/views/view.ts'
import { successiveAppsOn, type TestApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

type Members = Record<string, unknown>

const customers = collection({ path: '/customers', noun: 'customer', body: Type.Object({ name: Line(1, 20) }) })

const invoices = <B extends TObject>(body: B, more: object) =>
  collection({ path: '/invoices', noun: 'invoice', body, ...more } as never)

const earlier = service({
  resources: [
    customers,
    invoices(
      Type.Object({
        ...{
          number: Line(1, 20),
          buyerId: Ref(customers),
          cost: Decimal(12, 2),
          firm: Line(1, 20),
          state: Line(1, 20),
        },
      }),
      { filters: ['number', 'cost'], search: ['number'], sorts: ['number', 'cost'], unique: ['number'] },
    ),
  ],
})

const current = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object({
    ...{ reference: Line(1, 20), customerId: Ref(customers), total: Decimal(12, 2) },
    ...{ company: Line(1, 20), status: Line(1, 20) },
  }),
  filters: ['reference', 'total', 'company', 'isLarge'],
  ranges: ['total'],
  search: ['reference'],
  sorts: ['reference', 'total'],
  unique: ['reference'],
  access: () => ({ company: 'north' }),
  locked: { status: 'done' },
  computed: { isLarge: { when: { total: { from: '5.00' } } } },
  migrate: {
    renamed: { reference: 'number', customerId: 'buyerId', total: 'cost', company: 'firm', status: 'state' },
  },
})
// In v1, `number` is the name of `total`, and `cost` is the name of `reference`. The column `number` stores
// `reference`, and the column `cost` stores `total`.
const rename = { total: 'number', reference: 'cost', customerId: 'buyerId', status: 'phase' }
const definition = service({
  resources: [customers, current],
  versions: {
    v1: [customers, view(current, { rename, hide: ['company'], defaults: { company: 'north' } })],
    v2: { resources: [customers, current], lists: 'array' },
  },
})
const scopes = 'customers:read customers:write invoices:read invoices:write'

forEachEngine((engine) => {
  describe('a view of a collection whose renamed fields keep their columns', () => {
    const { start } = successiveAppsOn(engine)
    const sender =
      ({ send }: TestApp) =>
      async (method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE', url: string, payload?: object) => {
        const response = await send({ method, url, scopes, ...(payload && { payload }) })
        return { status: response.statusCode, body: response.body === '' ? undefined : response.json() }
      }

    /** Starts the earlier definition with four rows, then the current one. */
    async function migrated() {
      const before = sender((await start(earlier)).service)
      assert.equal((await before('POST', '/customers', { name: 'Ada' })).status, 201)
      for (const [number, cost, firm, state] of [
        ...[['A-1', '2.50', 'north', 'open'] as const, ['B-2', '7.25', 'north', 'open'] as const],
        ...[['C-3', '9.00', 'south', 'open'] as const, ['D-4', '1.00', 'north', 'done'] as const],
      ]) {
        assert.equal((await before('POST', '/invoices', { number, buyerId: 1, cost, firm, state })).status, 201)
      }
      const { service: app } = await start(definition)
      return sender(app)
    }

    it('reads its fields from the right columns in rows, lists, filters, search, sorts and relations', async () => {
      const request = await migrated()
      const { createdAt, updatedAt, createdBy, _links, ...shown } = (await request('GET', '/v1/invoices/2')).body
      assert.deepEqual(shown, { id: 2, cost: 'B-2', buyerId: 1, number: '7.25', phase: 'open', isLarge: true })
      const own = (await request('GET', '/v2/invoices/2')).body
      assert.deepEqual([own.reference, own.total, own.company, own.status], ['B-2', '7.25', 'north', 'open'])
      const costs = async (query: string) => {
        const { status, body } = await request('GET', `/v1/invoices?${query}`)
        assert.equal(status, 200, JSON.stringify(body))
        return body.map(({ cost }: Members) => cost)
      }
      assert.deepEqual(await costs(''), ['A-1', 'B-2', 'D-4'])
      assert.deepEqual(await costs('sort=-number'), ['B-2', 'A-1', 'D-4'])
      assert.deepEqual(await costs('sort=-cost&limit=2'), ['D-4', 'B-2'])
      assert.deepEqual(await costs('cost=b-2'), ['B-2'])
      assert.deepEqual(await costs('number=2.5'), ['A-1'])
      assert.deepEqual(await costs('number[from]=2&sort=number'), ['A-1', 'B-2'])
      assert.deepEqual(await costs('q=-'), ['A-1', 'B-2', 'D-4'])
      assert.deepEqual(await costs('isLarge=true'), ['B-2'])
      assert.equal((await request('GET', '/v1/invoices/1?expand=buyer')).body.buyer.name, 'Ada')
      const nested = (await request('GET', '/v1/customers/1/invoices?number[from]=2')).body
      assert.deepEqual(
        nested.map(({ cost }: Members) => cost),
        ['A-1', 'B-2'],
      )
    })

    it('stores sent values in the right columns, and applies the access rules and locks', async () => {
      const request = await migrated()
      const sent = { cost: 'E-5', buyerId: 1, number: '3.00', phase: 'open' }
      const created = await request('POST', '/v1/invoices', sent)
      assert.deepEqual([created.status, created.body.cost, created.body.number], [201, 'E-5', '3.00'])
      const { id } = created.body
      const stored = async () => {
        const { reference, customerId, total, company, status } = (await request('GET', `/v2/invoices/${id}`)).body
        return [reference, customerId, total, company, status]
      }
      assert.deepEqual(await stored(), ['E-5', 1, '3.00', 'north', 'open'])
      const patched = await request('PATCH', `/v1/invoices/${id}`, { number: '8.00', cost: 'E-6' })
      assert.deepEqual([patched.status, patched.body.number, patched.body.isLarge], [200, '8.00', true])
      assert.equal((await request('PUT', `/v1/invoices/${id}`, { ...sent, cost: 'E-7' })).status, 200)
      assert.deepEqual(await stored(), ['E-7', 1, '3.00', 'north', 'open'])
      const duplicate = await request('POST', '/v1/invoices', { ...sent, cost: 'a-1' })
      assert.deepEqual([duplicate.status, duplicate.body.errors[0].field], [409, 'cost'])
      const dangling = await request('PATCH', `/v1/invoices/${id}`, { buyerId: 9 })
      assert.deepEqual([dangling.status, dangling.body.errors[0].field], [422, 'buyerId'])
      assert.equal((await request('GET', '/v1/invoices/3')).status, 404)
      assert.equal((await request('PATCH', '/v1/invoices/4', { number: '2.00' })).status, 409)
      assert.equal((await request('DELETE', `/v1/invoices/${id}`)).status, 204)
      assert.equal((await request('GET', `/v2/invoices/${id}`)).status, 404)
    })
  })
})
