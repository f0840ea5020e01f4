import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { collection, Decimal, Line, report, service, Type } from '../../../src/plinth.ts'
import { appOn } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { reportFile } from '../../support/report-files.ts'

const amounts = collection({
  path: '/amounts',
  noun: 'amount',
  body: Type.Object({
    kind: Line(1, 20),
    amount: Type.Optional(Decimal(18, 2)),
    fine: Type.Optional(Decimal(18, 18)),
    pieces: Type.Optional(Type.Integer()),
  }),
})
const averages = report(amounts, {
  name: 'averages',
  group: { kind: 'kind' },
  show: { amount: { avg: 'amount' }, fine: { avg: 'fine' }, pieces: { avg: 'pieces' } },
})
const definition = service({ resources: [amounts], reports: [averages] })
const scopes = `${Object.keys(definition.scopes).join(' ')} reports:read reports:write`

const largest = '9999999999999999.99'
const zeros = (count: number) => Array.from({ length: count }, () => ({ amount: '0.00', pieces: 0 }))
const groups: Record<string, object[]> = {
  // 0.01 / 8 is 0.00125, a tie when rounded to four decimal places.
  half: [{ amount: '0.01', pieces: 1 }, ...zeros(7)],
  'half below zero': [{ amount: '-0.01', pieces: -1 }, ...zeros(7)],
  large: [
    { amount: largest, pieces: 2 ** 53 - 1 },
    { amount: largest, pieces: 2 ** 53 - 1 },
    { amount: '9999999999999999.98' },
  ],
  none: [{}],
  small: [{ fine: '0.000000000000000001' }, { fine: '0.000000000000000000' }, { fine: '0.000000000000000000' }],
  thirds: [{ amount: '1.00', pieces: 1 }, { amount: '0.50', pieces: 1 }, { amount: '0.50', pieces: 0 }, {}],
}

forEachEngine((engine) => {
  describe('averages in typed reports', () => {
    const app = appOn(engine, { prefixes: [''], definition })
    before(async () => {
      for (const [kind, rows] of Object.entries(groups)) {
        for (const row of rows) {
          const created = await app.send({ method: 'POST', url: '/amounts', payload: { kind, ...row }, scopes })
          assert.equal(created.statusCode, 201, created.body)
        }
      }
    })

    it('have two more decimal places than the field, are rounded half away from zero, and ignore absent values', async () => {
      assert.deepEqual(JSON.parse(String(await reportFile({ service: app, definition, scopes }, 'averages', {}))), [
        { kind: 'half', amount: '0.0013', pieces: '0.13' },
        { kind: 'half below zero', amount: '-0.0013', pieces: '-0.13' },
        { kind: 'large', amount: '9999999999999999.9867', pieces: '9007199254740991.00' },
        { kind: 'none' },
        { kind: 'small', fine: '0.00000000000000000033' },
        { kind: 'thirds', amount: '0.6667', pieces: '0.67' },
      ])
    })
  })
})
