import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { service as define } from '../../../src/definition/service.ts'
import { collection } from '../../../src/resources/collection.ts'
import { appOn, type TestApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const countries = Array.from({ length: 25 }, (_, at) => `c${at + 1}`)
const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object({
    status: Type.Enum(['draft', 'sent', 'paid']),
    level: Type.Optional(Type.Enum([1, 2, 3])),
    unit: Type.Optional(Type.Union([Type.Literal('m'), Type.Literal('km')])),
    kind: Type.Optional(Type.Literal('invoice')),
    country: Type.Optional(Type.Enum(countries)),
    odd: Type.Optional(Type.Enum(['', 'a, b'])),
    isFinal: Type.Optional(Type.Literal(true)),
    steps: Type.Optional(Type.Array(Type.Object({ state: Type.Enum(['open', 'done']) }))),
  }),
  filters: ['status', 'level', 'unit', 'isFinal'],
})
const definition = define({ resources: [invoices] })
const scopes = 'invoices:read invoices:write'
const url = '/invoices'

forEachEngine((engine) => {
  describe('a field with a fixed set of values', () => {
    const service = appOn(engine, { prefixes: [''], definition })
    const send: TestApp['send'] = (request) => service.send({ scopes, ...request })

    const broken: [change: object, field: string, message: string][] = [
      [{ status: 'Draft' }, 'status', 'must be one of draft, sent, paid'],
      [{ level: 4 }, 'level', 'must be one of 1, 2, 3'],
      [{ unit: 'mm' }, 'unit', 'must be one of m, km'],
      [{ kind: 'order' }, 'kind', 'must be invoice'],
      [{ country: 'x' }, 'country', `must be one of ${countries.slice(0, 20).join(', ')} or 5 other values`],
      [{ odd: 'x' }, 'odd', 'must be one of "", "a, b"'],
      [{ steps: [{ state: 'open' }, { state: 'x' }] }, 'steps.1.state', 'must be one of open, done'],
    ]
    for (const [change, field, message] of broken) {
      it(`422 for another value of ${field}, naming the allowed ones`, async () => {
        const post = await send({ method: 'POST', url, payload: { status: 'draft', ...change } })
        assert.deepEqual([post.statusCode, post.json().errors], [422, [{ field, message }]], post.body)
        const { id } = (await send({ method: 'POST', url, payload: { status: 'draft' } })).json()
        const patch = await send({ method: 'PATCH', url: `${url}/${id}`, payload: change })
        assert.deepEqual([patch.statusCode, patch.json().errors], [422, [{ field, message }]], patch.body)
      })
    }

    it('422 naming every invalid field at once', async () => {
      const { errors } = (await send({ method: 'POST', url, payload: { status: 'x', unit: 'x' } })).json()
      assert.deepEqual(
        errors.map(({ field }: { field: string }) => field),
        ['status', 'unit'],
      )
    })

    for (const [parameter, value, message] of [
      ['status[in]', 'sent,Sent', 'must be one of draft, sent, paid, not "Sent"'],
      ['status[not]', '', 'must be one of draft, sent, paid, not ""'],
      ['level[in]', '4', 'must be one of 1, 2, 3, not 4'],
      ['or', 'unit:mm', 'must be one of m, km, not "mm"'],
    ] as const) {
      it(`400 for ?${parameter}=${value}, naming the allowed values`, async () => {
        const answer = await send({ url: `${url}?${encodeURIComponent(parameter)}=${value}` })
        const { errorCode, errors } = answer.json()
        assert.deepEqual([answer.statusCode, errorCode], [400, 'INVALID_INPUT'], answer.body)
        assert.deepEqual(errors, [{ field: parameter, message }])
      })
    }

    it('200 with the matching rows when filtering by an enumeration, a union or a literal', async () => {
      const sent = { status: 'sent', level: 2, unit: 'km', isFinal: true }
      const { id } = (await send({ method: 'POST', url, payload: sent })).json()
      for (const query of ['status=sent', 'level=2', 'unit=km', 'isFinal=true']) {
        const found = (await send({ url: `${url}?${query}` })).json()
        assert.deepEqual([found.length, found[0].id], [1, id], query)
      }
      assert.deepEqual((await send({ url: `${url}?isFinal=false` })).json(), [])
      assert.deepEqual((await send({ url: `${url}?level=3` })).json(), [])
    })
  })
})
