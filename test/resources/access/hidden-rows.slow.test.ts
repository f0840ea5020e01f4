import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { Decimal, Line, plinth, Ref, Title, Type, view } from '../../../src/plinth.ts'
import { appOn, type TestApp, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const { collection, service } = plinth({ claims: ({ client }) => ({ tenant: client.id.split('_')[1] }) })

const customers = collection({
  path: '/customers',
  noun: 'customer',
  body: Type.Object({
    tenant: Line(1, 40),
    name: Title,
    from: Type.Optional(Type.Integer()),
    to: Type.Optional(Type.Integer()),
    upperId: Type.Optional(Ref('self')),
  }),
  unique: [['tenant', 'name']],
  immutable: ['from'],
  rules: [{ field: 'to', message: 'must not be below from', holds: ({ from = 0, to = 0 }) => to >= from }],
  filters: ['name', 'to', 'upperId'],
  search: ['name'],
  access: (caller) => ({ tenant: caller.claims.tenant }),
})
const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object({
    customerId: Ref(customers),
    payerId: Type.Optional(Ref(customers, { onDelete: 'setNull' })),
    status: Type.Enum(['draft', 'paid']),
  }),
  computed: { total: { sum: 'lines.amount', as: Decimal(5, 2) }, isPaid: { when: { status: 'paid' } } },
  filters: ['status', 'customerId', 'payerId', 'total', 'isPaid'],
  sorts: ['total'],
  locked: { status: 'paid' },
  access: (caller) => ({ customer: { tenant: caller.claims.tenant } }),
})
const lines = collection({
  path: '/lines',
  noun: 'line',
  body: Type.Object({ invoiceId: Ref(invoices, { onDelete: 'cascade' }), text: Title, amount: Decimal(5, 2) }),
  filters: ['text', 'invoiceId'],
  access: { of: 'invoice' },
})
const all = [customers, invoices, lines]
const renamed = view(customers, { rename: { tenant: 'company', name: 'title' } })
const definition = service({ resources: all, versions: { v1: all, v2: [renamed, invoices, lines] } })
const scopes = Object.keys(definition.scopes).join(' ')
type Request = Parameters<TestApp['send']>[0]

/** The id of a missing row. */
const missing = 987_654
const merge = { 'content-type': 'application/merge-patch+json' }
const conditions = [
  ...['"1"', '"2"', '"1", "2", "3"', '*', 'W/"1"', '"1.reduced"'].flatMap((tag) => [
    { 'if-match': tag },
    { 'if-none-match': tag },
  ]),
  { 'if-modified-since': 'Wed, 01 Jan 2020 00:00:00 GMT' },
  { 'if-modified-since': 'Wed, 01 Jan 2200 00:00:00 GMT' },
  { 'if-unmodified-since': 'Wed, 01 Jan 2020 00:00:00 GMT' },
  { prefer: 'return=minimal' },
  { prefer: 'handling=strict' },
  {},
]

/** Returns what a caller can observe in a response; masks numbers in the parts that may contain the requested id. */
function observed({ statusCode, headers, body }: Awaited<ReturnType<TestApp['send']>>) {
  const { etag, 'last-modified': lastModified, 'cache-control': cache, vary, link, allow, location } = headers
  const withoutIds = (text: unknown) => String(text).replace(/\d+/g, '#')
  return {
    ...{ statusCode, etag, lastModified, cache, vary, allow, names: Object.keys(headers).sort() },
    ...{ link: withoutIds(link), location: withoutIds(location), count: headers['x-total-count'] },
    body: withoutIds(body.replace(/urn:request:[^"]*|"requestId":"[^"]*"/g, '')),
  }
}

forEachEngine((engine) => {
  describe('a row of another tenant', () => {
    const app = appOn(engine, { definition })
    const as = (who: string, request: Request) => app.send({ token: token(scopes, who), ...request })
    const create = async (who: string, url: string, payload: object) => {
      const created = await as(who, { method: 'POST', url, payload })
      assert.equal(created.statusCode, 201, created.body)
      return created.json().id as number
    }
    const hidden: Record<string, number> = {}
    const own: Record<string, number> = {}
    before(async () => {
      for (const [tenant, ids] of [
        ['south', hidden],
        ['north', own],
      ] as const) {
        const who = `crm_${tenant}`
        ids.customers = await create(who, '/customers', { tenant, name: 'Ada', from: 3, to: 7 })
        ids.invoices = await create(who, '/invoices', { customerId: ids.customers, status: 'draft' })
        ids.lines = await create(who, '/lines', { invoiceId: ids.invoices, text: 'Work', amount: '900.00' })
      }
    })
    /** Asserts that another tenant gets the same response for the hidden row as for a missing row. */
    const same = async (name: string, requestOf: (id: number) => Request) => {
      const responseTo = async (id: number) => observed(await as('crm_north', requestOf(id)))
      const row = hidden[name] as number
      assert.deepEqual(await responseTo(row), await responseTo(missing), JSON.stringify([name, requestOf(row)]))
    }
    const bodies: Record<string, object[]> = {
      customers: [
        { tenant: 'south', name: 'Ada', from: 3, to: 7 },
        { tenant: 'north', name: 'Ada', from: 4, to: 7 },
        { tenant: 'north', name: 'Eve', from: 9, to: 7 },
        { tenant: 'north' },
        { tenant: 5 },
        {},
      ],
      invoices: [{ customerId: 1, status: 'paid' }, { status: 'draft', customerId: 2 }, { status: 'unknown' }, {}],
      lines: [{ invoiceId: 1, text: 'X', amount: '999.99' }, { amount: '999.99' }, { amount: 'much' }, {}],
    }

    it('looks like a missing row to reads, with any conditional or Prefer header', async () => {
      for (const name of ['customers', 'invoices', 'lines']) {
        for (const headers of conditions) {
          for (const method of ['GET', 'HEAD'] as const) {
            for (const query of [
              '',
              '?fields=id',
              '?fields=nothing',
              '?expand=invoice',
              '?expand=lines,customer.upper',
            ])
              await same(name, (id) => ({ method, url: `/${name}/${id}${query}`, headers }))
          }
        }
      }
    })

    it('looks like a missing row to changes and deletions, with any conditional or Prefer header', async () => {
      for (const name of ['customers', 'invoices', 'lines']) {
        for (const headers of conditions) {
          await same(name, (id) => ({ method: 'DELETE', url: `/${name}/${id}`, headers }))
          for (const payload of bodies[name] ?? []) {
            await same(name, (id) => ({ method: 'PUT', url: `/${name}/${id}`, headers, payload }))
            const patch = { ...headers, ...merge }
            await same(name, (id) => ({ method: 'PATCH', url: `/${name}/${id}`, headers: patch, payload }))
          }
        }
      }
    })

    it('does not reveal its unique values: 403 whether or not they are taken', async () => {
      const { customers: id } = own
      const taken = { tenant: 'south', name: 'Ada', from: 3, to: 7 }
      const requests = [
        (payload: object) => ({ method: 'POST', url: '/customers', payload }),
        (payload: object) => ({ method: 'POST', url: '/customers', payload, headers: { 'idempotency-key': 'guess' } }),
        (payload: object) => ({ method: 'PUT', url: `/customers/${id}`, payload }),
        (payload: object) => ({ method: 'PATCH', url: `/customers/${id}`, payload, headers: merge }),
      ] as const
      for (const requestOf of requests) {
        for (const name of ['Ada', 'Nobody']) {
          const refused = await as('crm_north', requestOf({ ...taken, name }))
          assert.deepEqual([refused.statusCode, refused.json().errorCode], [403, 'PERMISSION_DENIED'], name)
        }
      }
      for (const title of ['Ada', 'Nobody']) {
        const payload = { company: 'south', title, from: 3, to: 7 }
        for (const request of [
          { method: 'POST', url: '/v2/customers', payload },
          { method: 'PUT', url: `/v2/customers/${id}`, payload },
        ] as const) {
          const refused = await as('crm_north', request)
          assert.deepEqual([refused.statusCode, refused.json().errorCode], [403, 'PERMISSION_DENIED'], title)
        }
      }
      const renamed409 = { method: 'POST', url: '/v2/customers', payload: { company: 'north', title: 'Ada' } } as const
      assert.equal((await as('crm_north', renamed409)).statusCode, 409)
      const own409 = { method: 'POST', url: '/customers', payload: { ...taken, tenant: 'north' } } as const
      assert.equal((await as('crm_north', own409)).statusCode, 409)
      assert.equal((await as('crm_north', { url: `/customers/${id}` })).json().tenant, 'north')
    })

    it('looks like a missing row in references, in filters and in the paths of nested lists', async () => {
      const references = {
        customers: [
          (customerId: number) => ({ method: 'POST', url: '/invoices', payload: { customerId, status: 'draft' } }),
          (customerId: number) => ({ method: 'POST', url: '/invoices', payload: { customerId, status: 'paid' } }),
          (payerId: number) => ({
            ...{ method: 'PATCH', url: `/invoices/${own.invoices}`, headers: merge, payload: { payerId } },
          }),
          (upperId: number) => ({
            ...{ method: 'PATCH', url: `/customers/${own.customers}`, headers: merge, payload: { upperId } },
          }),
          (upperId: number) => ({
            ...{ method: 'POST', url: '/customers', payload: { tenant: 'south', name: 'Ada', upperId } },
          }),
          ...['customerId', 'payerId'].map((field) => (id: number) => ({ url: `/invoices?${field}=${id}` })),
          (id: number) => ({ url: `/invoices?customerId[not]=${id}`, headers: { prefer: 'count=exact' } }),
          (id: number) => ({ url: `/customers?upperId=${id}` }),
        ],
        invoices: [
          (invoiceId: number) => ({
            method: 'POST',
            url: '/lines',
            payload: { invoiceId, text: 'X', amount: '999.99' },
          }),
          (invoiceId: number) => ({
            method: 'POST',
            url: '/lines',
            payload: { invoiceId, text: 'X', amount: '-999.99' },
          }),
          (invoiceId: number) => ({
            ...{ method: 'PATCH', url: `/lines/${own.lines}`, headers: merge, payload: { invoiceId } },
          }),
          (id: number) => ({ url: `/lines?invoiceId=${id}` }),
          (id: number) => ({ url: `/invoices/${id}/lines` }),
          (id: number) => ({ method: 'HEAD', url: `/invoices/${id}/lines?text=Work` }),
          (id: number) => ({ url: `/invoices/${id}/lines?or=nonsense&expand=nothing` }),
        ],
      } as const
      for (const [name, all] of Object.entries(references)) {
        for (const requestOf of all) await same(name, requestOf as (id: number) => Request)
      }
    })
  })
})
