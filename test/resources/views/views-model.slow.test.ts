import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { plinth } from '../../../src/definition/plinth.ts'
import { Line } from '../../../src/http/text-rules.ts'
import { Decimal } from '../../../src/resources/decimal-fields.ts'
import { Day, Title } from '../../../src/resources/field-types.ts'
import { Ref } from '../../../src/resources/relations/ref.ts'
import { view } from '../../../src/resources/views/view.ts'
import { appOn, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const { collection, service } = plinth({ claims: ({ client }) => ({ tenant: client.id }) })
const customers = collection({
  path: '/customers',
  noun: 'customer',
  body: Type.Object({ tenant: Line(1, 40), name: Title }),
  set: { tenant: ({ caller }) => caller.claims.tenant },
  access: (caller) => ({ tenant: caller.claims.tenant }),
  filters: ['name'],
})
const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object({
    reference: Line(1, 20),
    customerId: Ref(customers),
    status: Type.Enum(['draft', 'sent', 'paid']),
    due: Day,
    currency: Type.Enum(['EUR', 'USD']),
  }),
  defaults: { status: 'draft', reference: async ({ next }) => `R-${await next('invoices')}` },
  access: (caller) => ({ customer: { tenant: caller.claims.tenant } }),
  locked: { status: 'paid' },
  computed: {
    overdue: { when: { status: 'sent', due: { before: 'today' } } },
    total: { sum: 'lines.amount', as: Decimal(12, 2) },
    size: { count: 'lines' },
  },
  derived: { label: { body: Type.String(), from: ({ reference, total }) => `${reference} ${total}` } },
  filters: ['reference', 'customerId', 'overdue', 'total'],
  sorts: ['total'],
})
const lines = collection({
  path: '/lines',
  noun: 'line',
  body: Type.Object({ invoiceId: Ref(invoices, { onDelete: 'cascade' }), amount: Decimal(12, 2) }),
  access: { of: 'invoice' },
})
const customersV1 = view(customers, { rename: { name: 'title' } })
const invoicesV1 = view(invoices, {
  rename: { reference: 'number', customerId: 'clientId', status: 'state', due: 'payBy' },
  hide: ['currency'],
  defaults: { currency: 'EUR' },
})
/** Renames computed and derived fields. */
const invoicesV3 = view(invoices, { rename: { total: 'sum', overdue: 'late', label: 'title' }, hide: ['size'] })
const linesV1 = view(lines, { rename: { invoiceId: 'billId', amount: 'price' } })
const definition = service({
  resources: [customers, invoices, lines],
  versions: {
    v1: [customersV1, invoicesV1, linesV1],
    v2: { resources: [customers, invoices, lines], lists: 'array' },
    v3: { resources: [customers, invoicesV3, lines], lists: 'array' },
  },
})
const scopes = ['customers', 'invoices', 'lines'].flatMap((name) => [`${name}:read`, `${name}:write`]).join(' ')

forEachEngine((engine) => {
  describe('a view of a resource with references, computed fields and access rules on related rows', () => {
    const app = appOn(engine, { definition })
    type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
    const as = (client: string) => (method: Method, url: string, payload?: object) =>
      app.send({ method, url, ...(payload && { payload }), token: token(scopes, client) })
    const [north, south] = [as('north'), as('south')]

    it('applies the collection’s filters, sums, locks and access rules to the same rows', async () => {
      const customer = await north('POST', '/v1/customers', { title: 'Ada' })
      assert.equal(customer.statusCode, 201, customer.body)
      const clientId = customer.json().id
      const created = await north('POST', '/v1/invoices', { clientId, payBy: '2026-01-01' })
      assert.equal(created.statusCode, 201, created.body)
      const { id } = created.json()
      const { number, state, total, size, overdue, label } = created.json()
      assert.deepEqual([number, state, total, size, overdue, label], ['R-1', 'draft', '0.00', 0, false, 'R-1 0.00'])
      const line = await north('POST', '/v1/lines', { billId: id, price: '12.50' })
      assert.equal(line.statusCode, 201, line.body)
      const sent = await north('PATCH', `/v1/invoices/${id}`, { state: 'sent' })
      assert.equal(sent.statusCode, 200, sent.body)
      assert.deepEqual([sent.json().total, sent.json().size, sent.json().overdue], ['12.50', 1, true])
      const item = sent.json()
      for (const query of [
        'overdue=true',
        'total=12.50',
        'client.title=ada',
        'sort=-total',
        'client.title[prefix]=A',
      ]) {
        const listed = await north('GET', `/v1/invoices?${query}`)
        assert.equal(listed.statusCode, 200, listed.body)
        assert.deepEqual(listed.json(), [item], query)
        assert.deepEqual((await south('GET', `/v1/invoices?${query}`)).json(), [])
      }
      assert.deepEqual((await north('GET', '/v1/invoices?overdue=false')).json(), [])
      assert.deepEqual((await north('GET', `/v1/invoices/${id}`)).json(), item)
      assert.equal((await south('GET', `/v1/invoices/${id}`)).statusCode, 404)
      const foreign = await south('POST', '/v1/invoices', { clientId, payBy: '2026-01-01' })
      assert.equal(foreign.statusCode, 422, foreign.body)
      assert.match(foreign.body, /"clientId"/)
      const v3 = (await north('GET', `/v3/invoices/${id}`)).json()
      assert.deepEqual(
        [v3.sum, v3.late, v3.title, v3.total, v3.size],
        ['12.50', true, 'R-1 12.50', undefined, undefined],
      )
      assert.deepEqual((await north('GET', '/v3/invoices?late=true&sum=12.50&sort=sum')).json(), [v3])
      const put = await north('PUT', `/v3/invoices/${id}`, {
        ...{ reference: 'R-9', customerId: clientId, status: 'sent', due: '2026-01-01', currency: 'USD' },
      })
      assert.equal(put.statusCode, 200, put.body)
      assert.equal((await north('GET', `/v2/invoices/${id}`)).json().size, 1)
      const tag = String((await app.send({ url: `/v1/invoices/${id}`, token: token(scopes, 'north') })).headers.etag)
      assert.match(tag, /^"\d+\.[0-9a-f]{8}\.2026-03-01"$/)
      const paid = await app.send({
        ...{ method: 'PATCH', url: `/v2/invoices/${id}`, payload: { status: 'paid' }, headers: { 'if-match': tag } },
        token: token(scopes, 'north'),
      })
      assert.equal(paid.statusCode, 200, paid.body)
      for (const [method, payload] of [
        ['PATCH', { state: 'sent' }],
        ['DELETE', undefined],
      ] as const) {
        const locked = await north(method, `/v1/invoices/${id}`, payload)
        assert.equal(locked.statusCode, 409, locked.body)
      }
      const expanded = await north('GET', `/v1/lines/${line.json().id}?expand=bill.client`)
      assert.deepEqual([expanded.json().bill.overdue, expanded.json().bill.client.title], [false, 'Ada'])
      assert.equal('currency' in expanded.json().bill, false)
    })
  })
})
