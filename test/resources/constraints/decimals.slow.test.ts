import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { service as define } from '../../../src/definition/service.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Decimal } from '../../../src/resources/decimal-fields.ts'
import { Title } from '../../../src/resources/field-types.ts'
import { appOn, type TestApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const lines = collection({
  path: '/lines',
  noun: 'line',
  body: Type.Object({ title: Title, price: Decimal(12, 2), fee: Type.Optional(Decimal(12, 2)), net: Decimal(15, 4) }),
  filters: ['price', 'net'],
  unique: [['title', 'net']],
  immutable: ['price'],
  defaults: { fee: '1.50', net: () => '2.5' },
  rules: [{ field: 'fee', message: 'must not be the price', holds: ({ fee, price }) => fee !== price }],
})
const definition = define({ resources: [lines] })
const scopes = 'lines:read lines:write'
const url = '/lines'

forEachEngine((engine) => {
  describe('constraints on decimals', () => {
    const service = appOn(engine, { prefixes: [''], definition })
    const send: TestApp['send'] = (request) => service.send({ scopes, ...request })
    const post = (payload: object) => send({ method: 'POST', url, payload })

    it('201 with defaults at the field’s scale, 409 if an equal decimal violates a uniqueness constraint', async () => {
      const { fee, net, price } = (await post({ title: 'A', price: 7 })).json()
      assert.deepEqual([fee, net, price], ['1.50', '2.5000', '7.00'])
      assert.equal((await post({ title: 'a', price: 8, net: 2.5 })).statusCode, 409)
      assert.equal((await post({ title: 'a', price: 8, net: '2.6' })).statusCode, 201)
    })

    it('200 for an equal immutable value in another notation, 422 for a different value or a broken rule', async () => {
      const { id } = (await post({ title: 'B', price: '7.50' })).json()
      const change = (method: 'PUT' | 'PATCH', payload: object) => send({ method, url: `${url}/${id}`, payload })
      for (const price of ['7.50', '7.5', 7.5]) {
        assert.equal((await change('PUT', { title: 'B', price })).statusCode, 200, String(price))
        assert.equal((await change('PATCH', { price })).statusCode, 200, String(price))
      }
      assert.equal((await change('PUT', { title: 'B', price: 7.51 })).json().errors[0].field, 'price')
      assert.equal((await change('PATCH', { price: '7.51' })).json().errors[0].field, 'price')
      assert.equal((await change('PUT', { title: 'B', fee: 7.5 })).json().errors[0].field, 'fee')
    })

    it('200 with the matching row when filtering by decimals in another notation', async () => {
      const { id } = (await post({ title: 'C', price: 99 })).json()
      const found = (await send({ url: `${url}?price=99.0&net=2.5` })).json()
      assert.deepEqual([found.length, found[0].id], [1, id])
    })
  })
})
