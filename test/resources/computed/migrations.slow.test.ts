import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { sql } from 'kysely'
import { Type } from 'typebox'
import { service as define } from '../../../src/definition/service.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Decimal } from '../../../src/resources/decimal-fields.ts'
import { Title } from '../../../src/resources/field-types.ts'
import { Ref } from '../../../src/resources/relations/ref.ts'
import { successiveAppsOn } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

/** Returns a definition whose invoices have these options and fields. */
const definitionWith = (options: object = {}, fields = {}) => {
  const invoices = collection({
    path: '/invoices',
    noun: 'invoice',
    body: Type.Object({ title: Title, ...fields }),
    ...options,
  })
  const body = Type.Object({ invoiceId: Ref(invoices), amount: Decimal(9, 2), discount: Decimal(9, 2) })
  return define({ resources: [invoices, collection({ path: '/lines', noun: 'line', body })] })
}
const totals = (field: string, digits = 9) => ({
  computed: { total: { sum: `lines.${field}`, as: Decimal(digits, 2) }, lineCount: { count: 'lines' } },
  filters: ['total'],
})
const scopes = 'invoices:read invoices:write lines:read lines:write'

forEachEngine((engine) => {
  describe('a computed field that is added to a table with rows', () => {
    const { state, start } = successiveAppsOn(engine, { prefixes: [''] })
    const first = async () => {
      const { service } = await start(definitionWith())
      const post = (url: string, payload: object) => service.send({ method: 'POST', url, payload, scopes })
      for (const title of ['A', 'B']) await post('/invoices', { title })
      for (const amount of ['1.50', '2.25']) await post('/lines', { invoiceId: 1, amount, discount: '0.10' })
    }
    const shown = async (service: Awaited<ReturnType<typeof start>>['service'], id = 1) => {
      const answer = await service.send({ url: `/invoices/${id}`, scopes })
      const { total, lineCount } = answer.json()
      return [total, lineCount, answer.headers.etag]
    }

    it('is filled in every row, and the revisions of the rows increase', async () => {
      await first()
      const { service, done } = await start(definitionWith(totals('amount')))
      assert.ok(done.includes('-- fill resource_invoices.total in 2 rows'), done.join('\n'))
      assert.deepEqual(
        [await shown(service), await shown(service, 2)],
        [
          ['3.75', 2, '"3"'],
          ['0.00', 0, '"3"'],
        ],
      )
      const { done: again } = await start(definitionWith(totals('amount')))
      assert.deepEqual(again, [])
    })

    it('is recomputed at the next start if it now sums a different field or if rows were deleted outside Plinth', async () => {
      await first()
      await start(definitionWith(totals('amount')))
      const { service } = await start(definitionWith(totals('discount')))
      assert.deepEqual(await shown(service), ['0.20', 2, '"4"'])
      await state.db.write((tx) => sql`delete from resource_lines where id = 1`.execute(tx))
      const { service: later } = await start(definitionWith(totals('discount')))
      assert.deepEqual(await shown(later), ['0.10', 1, '"6"'])
    })

    it('is refused if a sum has too many digits; nothing changes', async () => {
      await first()
      await assert.rejects(
        start(definitionWith(totals('amount', 2))),
        /\/invoices: the sum total would be larger than 99 in its smallest unit in 1 row\. Declare it with more digits/,
      )
      const { service } = await start(definitionWith())
      assert.equal((await service.send({ url: '/invoices/1', scopes })).headers.etag, '"1"')
    })

    it('is refused if the table already has a stored field of that name', async () => {
      await start(definitionWith({}, { total: Decimal(9, 2) }))
      await assert.rejects(
        start(definitionWith(totals('amount'))),
        /\/invoices: the field total is declared as sum of decimal with scale 2, but stored as decimal/,
      )
    })
  })
})
