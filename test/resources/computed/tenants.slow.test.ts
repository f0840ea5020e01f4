import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { plinth } from '../../../src/definition/plinth.ts'
import { Line } from '../../../src/http/text-rules.ts'
import { Decimal } from '../../../src/resources/decimal-fields.ts'
import { Day, Title } from '../../../src/resources/field-types.ts'
import { Ref } from '../../../src/resources/relations/ref.ts'
import { appOn, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { fanOutAll } from '../access/fan-out.ts'

const { collection, service: define } = plinth({ claims: ({ client }) => ({ tenant: client.id.split('_')[1] }) })

const customers = collection({
  path: '/customers',
  noun: 'customer',
  body: Type.Object({ tenant: Line(1, 40), name: Title }),
  set: { tenant: ({ caller }) => caller.claims.tenant },
  access: (caller) => ({ tenant: caller.claims.tenant }),
})
const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object({
    reference: Line(1, 20),
    customerId: Ref(customers, { onDelete: 'restrict' }),
    status: Type.Enum(['draft', 'sent', 'paid']),
    due: Day,
  }),
  defaults: { status: 'draft', reference: async ({ next }) => `R-${await next('invoices')}` },
  access: {
    read: (caller) => caller.may('audit:all') || { customer: { tenant: caller.claims.tenant } },
    write: (caller) => ({ customer: { tenant: caller.claims.tenant } }),
  },
  locked: { status: 'paid' },
  computed: {
    overdue: { when: { status: 'sent', due: { before: 'today' } } },
    total: { sum: 'lines.amount', as: Decimal(12, 2) },
  },
  filters: ['reference', 'status', 'customerId', 'due', 'overdue', 'total'],
  sorts: ['due', 'total'],
})
const lines = collection({
  path: '/lines',
  noun: 'line',
  body: Type.Object({ invoiceId: Ref(invoices, { onDelete: 'cascade' }), text: Title, amount: Decimal(12, 2) }),
  access: { of: 'invoice' },
})
const definition = define({ resources: [customers, invoices, lines] })
const scopes = ['customers', 'invoices', 'lines'].map((name) => `${name}:read ${name}:write`).join(' ')

forEachEngine((engine) => {
  describe('computed fields under access rules', () => {
    const service = appOn(engine, { prefixes: [''], definition })
    const as = (tenant: string, more = '') => {
      const sent = token(`${scopes} ${more}`, `cli_${tenant}`)
      return async (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', url: string, payload?: object) => {
        const answer = await service.send({ token: sent, method, url, ...(payload && { payload }) })
        return { status: answer.statusCode, body: answer.body === '' ? undefined : answer.json() }
      }
    }
    const [ada, eve, auditor] = [as('north'), as('south'), as('east', 'audit:all')]

    it('409 for lines added after a concurrent request has paid the invoice; the total excludes them', async () => {
      const customerId = (await ada('POST', '/customers', { name: 'Ada' })).body.id
      const { id } = (await ada('POST', '/invoices', { customerId, due: '2026-04-01' })).body
      const line = { invoiceId: id, text: 'Work', amount: '1.00' }
      const racing = [
        ...Array.from({ length: 4 }, () => ada('POST', '/lines', line)),
        ada('PATCH', `/invoices/${id}`, { status: 'paid' }),
        ...Array.from({ length: 4 }, () => ada('POST', '/lines', line)),
      ]
      const answers = (await Promise.all(racing)).map(({ status }) => status)
      const created = answers.filter((status) => status === 201).length
      const { body } = await ada('GET', `/invoices/${id}`)
      assert.deepEqual([body.status, body.total], ['paid', `${created}.00`])
      assert.equal(answers.filter((status) => status === 409).length, 8 - created)
    })

    it('409 for writes to locked rows; 403, 404 or 422 for callers who may not write them; filters omit unreadable rows', async () => {
      const customerId = (await ada('POST', '/customers', { name: 'Ada' })).body.id
      const { status, body } = await ada('POST', '/invoices', { customerId, due: '2026-02-01' })
      assert.deepEqual([status, body.reference, body.total], [201, 'R-2', '0.00'])
      const url = `/invoices/${body.id}`
      const line = { invoiceId: body.id, text: 'Work', amount: '12.50' }
      assert.equal((await eve('POST', '/lines', line)).status, 422)
      const made = await ada('POST', '/lines', line)
      assert.equal(made.status, 201, JSON.stringify(made.body))
      await ada('PATCH', url, { status: 'sent' })
      const query = '/invoices?overdue=true&total[from]=10&sort=-total'
      const totals = async (get: typeof ada) =>
        (await get('GET', query)).body.map((row: { total: string }) => row.total)
      assert.deepEqual([await totals(ada), await totals(eve), await totals(auditor)], [['12.50'], [], ['12.50']])
      const along = async (get: typeof ada) =>
        (await get('GET', '/lines?invoice.overdue=true&invoice.total=12.5')).body.length
      assert.deepEqual([await along(ada), await along(eve)], [1, 0])
      assert.equal((await ada('GET', '/lines?invoice.overdue=false&invoice.reference=R-2')).body.length, 0)
      await ada('PATCH', url, { status: 'paid' })
      const answers = await Promise.all([ada, eve, auditor].map((send) => send('PATCH', url, { status: 'sent' })))
      assert.deepEqual(
        answers.map((answer) => answer.status),
        [409, 404, 403],
      )
      const lineUrl = `/lines/${made.body.id}`
      const free = (await ada('POST', '/invoices', { customerId, due: '2026-02-01' })).body.id
      const other = (await ada('POST', '/lines', { ...line, invoiceId: free })).body.id
      const statuses = async (send: typeof ada) =>
        (
          await Promise.all([
            send('PATCH', lineUrl, { amount: '1.00' }),
            send('PATCH', lineUrl, { invoiceId: free }),
            send('DELETE', lineUrl),
            send('POST', '/lines', line),
            send('PATCH', `/lines/${other}`, { invoiceId: body.id }),
          ])
        ).map((answer) => answer.status)
      assert.deepEqual(await statuses(ada), [409, 409, 409, 409, 409])
      assert.deepEqual(await statuses(eve), [404, 404, 404, 422, 404])
      assert.deepEqual(await statuses(auditor), [403, 403, 403, 403, 403])
      const { body: shown } = await ada('GET', url)
      assert.deepEqual([shown.total, shown.overdue], ['12.50', false])
    })

    it('events about changed sums are sent only to webhooks whose owner can read the row', async () => {
      const hooks = new Map<string, string>()
      for (const [who, tenant] of [
        ['ada', 'north'],
        ['eve', 'south'],
      ] as const) {
        const payload = { event: 'invoice.updated', callbackUrl: `http://127.0.0.1:9/${who}` }
        const sent = token(`${scopes} webhooks:write webhooks:read`, `cli_${tenant}`)
        const made = await service.send({ token: sent, method: 'POST', url: '/api/webhooks', payload })
        assert.equal(made.statusCode, 201, made.body)
        hooks.set(made.json().id, who)
      }
      const customerId = (await ada('POST', '/customers', { name: 'Ada' })).body.id
      const { id: invoiceId } = (await ada('POST', '/invoices', { customerId, due: '2026-04-01' })).body
      await ada('POST', '/lines', { invoiceId, text: 'Work', amount: '2.50' })
      const received = (await fanOutAll(service, definition)).map(({ webhookId, body }) => [
        hooks.get(String(webhookId)),
        JSON.parse(body).total,
      ])
      assert.deepEqual(received, [['ada', '2.50']])
    })
  })
})
