import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { collection, Day, Decimal, DefinitionError, service as define, Ref, report, Type } from '../../../src/plinth.ts'
import { appOn } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { reportFile } from '../../support/report-files.ts'

const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object({ status: Type.Enum(['draft', 'sent', 'paid']), due: Day, currency: Type.Enum(['EUR', 'USD']) }),
  computed: {
    overdue: { when: { status: 'sent', due: { before: 'today' } } },
    total: { sum: 'lines.amount', as: Decimal(12, 2) },
    parts: { count: 'lines' },
  },
})
const lines = collection({
  path: '/lines',
  noun: 'line',
  body: Type.Object({ invoiceId: Ref(invoices, { onDelete: 'cascade' }), amount: Decimal(12, 2) }),
})

/** Never called: TypeScript checks this code (`npm run types`) and reports every unused `@ts-expect-error`. */
export function typed() {
  report(invoices, {
    name: 'revenue',
    where: () => ({ overdue: true, total: { from: '1' } }),
    group: { parts: 'parts' },
  })
  // @ts-expect-error `sum` names an unknown field, although the collection has computed fields
  report(invoices, { name: 'revenue', show: { total: { sum: 'totals' } } })
  // @ts-expect-error the condition names an unknown field, although the collection has computed fields
  report(invoices, { name: 'revenue', where: () => ({ overdew: true }) })
}

const definition = define({
  resources: [invoices, lines],
  reports: [
    report(invoices, {
      name: 'revenue',
      parameters: Type.Object({ from: Day, to: Day }),
      where: ({ from, to }) => ({ status: 'paid', due: { from, to } }),
      group: { month: { month: 'due' }, currency: 'currency' },
      show: { total: { sum: 'total' }, parts: { sum: 'parts' } },
    }),
    report(invoices, { name: 'overdue', where: () => ({ overdue: true }), show: { most: { max: 'total' } } }),
    report(invoices, { name: 'by-total', where: () => ({ overdue: { not: true } }), group: { total: 'total' } }),
  ],
})
const scopes = 'invoices:read invoices:write lines:write lines:read reports:read reports:write'

forEachEngine((engine) => {
  describe('a typed report of computed fields', () => {
    const service = appOn(engine, { prefixes: [''], definition })
    const at = { service, definition, scopes }
    const json = async (name: string, parameters: object = {}) =>
      JSON.parse(String(await reportFile(at, name, parameters)))
    before(async () => {
      const create = async (url: string, payload: object): Promise<number> => {
        const response = await service.send({ method: 'POST', url, payload, scopes })
        assert.equal(response.statusCode, 201, response.body)
        return response.json().id
      }
      for (const [status, due, amounts] of [
        ['paid', '2026-11-01', ['1.10', '2.20']],
        ['paid', '2026-11-30', ['0.70']],
        ['paid', '2026-12-01', []],
        ['sent', '2026-02-28', ['5.00']],
        ['sent', '2026-03-01', ['6.00']],
      ] as const) {
        const invoiceId = await create('/invoices', { status, due, currency: 'EUR' })
        for (const amount of amounts) await create('/lines', { invoiceId, amount })
      }
    })

    it('aggregates computed sums and counts', async () => {
      assert.deepEqual(await json('revenue', { from: '2026-11-01', to: '2026-12-31' }), [
        { month: '2026-11', currency: 'EUR', total: '4.00', parts: 3 },
        { month: '2026-12', currency: 'EUR', total: '0.00', parts: 0 },
      ])
    })

    it('selects rows by computed conditions', async () => {
      assert.deepEqual(await json('overdue'), [{ most: '5.00' }])
      assert.deepEqual(
        await json('by-total'),
        ['0.00', '0.70', '3.30', '6.00'].map((total) => ({ total })),
      )
    })
  })
})

it('report() rejects a computed condition as a column', () => {
  assert.throws(
    () => report(invoices, { name: 'revenue', group: { late: 'overdue' } }),
    (error: unknown) =>
      error instanceof DefinitionError &&
      /group\.late names overdue, a computed condition, which only where can name: use one of status/.test(
        error.message,
      ),
  )
})
