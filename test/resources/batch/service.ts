import assert from 'node:assert/strict'
import { Decimal, hooks, Line, plinth, Ref, refuse, Title, Type, view } from '../../../src/plinth.ts'
import { appOn, type TestApp, token } from '../../support/app.ts'
import type { EngineUnderTest } from '../../support/engines.ts'

/** The client `crm_north` belongs to the tenant `north`. Invoices and lines belong to the tenant of their customer. */
function definitionOf() {
  const { collection, service } = plinth({
    claims: ({ client }) => ({ tenant: /^[a-z]+_(\w+)$/.exec(client.id)?.[1] }),
  })
  const customers = collection({
    path: '/customers',
    noun: 'customer',
    ids: 'uuid',
    body: Type.Object({ tenant: Line(1, 40), name: Title, email: Line(1, 80) }),
    set: { tenant: ({ caller }) => caller.claims.tenant },
    unique: [['tenant', 'email']],
    access: ({ claims }) => ({ tenant: claims.tenant }),
  })
  const invoices = collection({
    path: '/invoices',
    noun: 'invoice',
    body: Type.Object({
      reference: Line(1, 20),
      customerId: Ref(customers, { onDelete: 'restrict' }),
      status: Type.Enum(['draft', 'sent', 'paid']),
      note: Type.Optional(Type.String({ maxLength: 5_000 })),
      tags: Type.Optional(Type.Array(Type.Unknown())),
    }),
    defaults: { status: 'draft', reference: async ({ next }) => `R-${await next('invoices')}` },
    unique: ['reference'],
    immutable: ['reference'],
    locked: { status: 'paid' },
    access: ({ claims }) => ({ customer: { tenant: claims.tenant } }),
    computed: { total: { sum: 'lines.amount', as: Decimal(12, 2) } },
    filters: ['status'],
  })
  const lines = collection({
    path: '/lines',
    noun: 'line',
    body: Type.Object({ invoiceId: Ref(invoices, { onDelete: 'cascade' }), text: Title, amount: Decimal(18, 2) }),
    access: { of: 'invoice' },
  })
  /** Rows that every tenant can read, and that nobody can change. */
  const entries = collection({
    path: '/entries',
    noun: 'entry',
    body: Type.Object({ tenant: Line(1, 40), code: Line(1, 40) }),
    unique: ['code'],
    operations: ['list', 'create', 'read'],
    access: { read: () => true, write: ({ claims }) => ({ tenant: claims.tenant }) },
  })
  const archives = collection({
    path: '/archives',
    noun: 'archive',
    body: Type.Object({ text: Title }),
    operations: ['list', 'read'],
  })
  const lineHooks = hooks(lines, {
    creating: ({ text }) => {
      if (text === 'refused') throw refuse('text', 'is refused')
      if (text === 'conflict') throw refuse.conflict('There is a conflict')
      if (text === 'broken') throw new Error('the author failed')
      return { text: text.toUpperCase() }
    },
    removed: async ({ invoiceId }, { update }) => {
      await update(invoices, invoiceId, { note: 'a line was removed' })
    },
  })
  const all = [customers, invoices, lines, entries, archives]
  const invoicesV1 = view(invoices, { rename: { reference: 'number', customerId: 'clientId' }, hide: ['status'] })
  return service({
    resources: all,
    code: { lineHooks },
    versions: { v1: [customers, invoicesV1, lines, entries, archives], v2: { resources: all, lists: 'array' } },
  })
}

export const definition = definitionOf()
export const scopes = `${Object.keys(definition.scopes)
  .filter((scope) => scope !== 'admin')
  .join(' ')} webhooks:read webhooks:write`

export type Item = Record<string, unknown>

/** Returns an item that creates a row. */
export const post = (collection: string, body: object): Item => ({ method: 'POST', collection, body })

/** A reference to a field in the result of an earlier item. */
export const ref = (text: string) => ({ $ref: text })

export const north = token(scopes, 'crm_north')
export const south = token(scopes, 'crm_south')

/** Serves the definition; returns functions that send batches and single requests as a client of the tenant `north`. */
export function batchServiceOn(engine: EngineUnderTest, settings: Parameters<typeof appOn>[1] = {}) {
  const service = appOn(engine, { definition, ...settings })
  const send: TestApp['send'] = (request) => service.send({ token: north, ...request })
  const batch = (items: unknown, headers: Record<string, string> = {}, more: Parameters<TestApp['send']>[0] = {}) =>
    send({ method: 'POST', url: '/v2/api/batch', payload: { items }, headers, ...more })
  const read = async (url: string, as = north) => (await send({ url, token: as })).json()
  let made = 0
  const customer = (more: object = {}) => ({ name: 'Ada', email: `ada${++made}@example.com`, ...more })
  /** Creates an invoice with one line; returns the ids. */
  const invoice = async () => {
    const items = [
      post('customers', customer()),
      post('invoices', { customerId: ref('0.id') }),
      post('lines', { invoiceId: ref('1.id'), text: 'first', amount: '1.00' }),
    ]
    const response = await batch(items)
    assert.equal(response.statusCode, 200, response.body)
    const [customerId, id, lineId] = response.json().items.map(({ body }: { body: { id: unknown } }) => body.id)
    return { customerId: String(customerId), id: Number(id), lineId: Number(lineId) }
  }
  /** Returns the number of the tenant's rows in each collection. */
  const counts = async () => {
    const tables = ['customers', 'invoices', 'lines', 'entries']
    return Promise.all(tables.map(async (name) => (await read(`/v2/${name}?limit=200`)).length))
  }
  return Object.assign(service, { api: { send, batch, read, customer, invoice, counts } })
}
