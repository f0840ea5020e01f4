import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { collection, Ref, service, Title, Type } from '../../../src/plinth.ts'
import { appOn, type TestApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const secret = Type.Optional(Type.String({ maxLength: 20 }))
const customers = collection({
  path: '/customers',
  noun: 'customer',
  body: Type.Object({ name: Title, password: secret }),
  writeOnly: ['password'],
})
const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object({
    customerId: Ref(customers, { onDelete: 'cascade' }),
    number: Type.Integer(),
    correctsId: Type.Optional(Ref('self', { onDelete: 'setNull' })),
    code: secret,
  }),
  unique: [['customerId', 'number']],
  immutable: ['customerId', 'correctsId'],
  writeOnly: ['code'],
})
const hints = collection({
  path: '/hints',
  noun: 'hint',
  body: Type.Object({ text: Title, customerId: Type.Optional(Ref(customers)) }),
  writeOnly: ['customerId'],
})
const definition = service({ resources: [customers, invoices, hints] })
const scopes = Object.keys(definition.scopes).join(' ')
const mergePatch = { 'content-type': 'application/merge-patch+json' }

forEachEngine((engine) => {
  describe('references between resources with write-only and immutable fields and unique tuples', () => {
    const app = appOn(engine, { prefixes: [''], definition })
    const send = (request: Parameters<TestApp['send']>[0]) => app.send({ scopes, ...request })
    const post = (url: string, payload: object) => send({ method: 'POST', url, payload })
    const create = async (url: string, payload: object) => {
      const created = await post(url, payload)
      assert.equal(created.statusCode, 201, created.body)
      return created.json()
    }
    let count = 0
    const customer = () => create('/customers', { name: `C ${++count}`, password: 'hidden' })
    const invoice = (customerId: number, more: object = {}) =>
      create('/invoices', { customerId, number: ++count, code: 'hidden', ...more })

    it('200 without write-only fields in expanded rows and nested lists', async () => {
      const { id } = await customer()
      const { id: invoiceId, number } = await invoice(id)
      for (const url of [
        `/invoices/${invoiceId}?expand=customer`,
        `/customers/${id}?expand=invoices,invoices.customer`,
        `/customers?expand=invoices&sort=-id`,
        `/customers/${id}/invoices?expand=customer.invoices`,
      ]) {
        const response = await send({ url })
        assert.equal(response.statusCode, 200, response.body)
        assert.match(response.body, new RegExp(`"number":${number}`))
        assert.doesNotMatch(response.body, /hidden|password|"code"/, url)
      }
    })

    it('400 for expanding a write-only reference from either side, 404 for its nested list', async () => {
      const { id } = await customer()
      await create('/hints', { text: 'x', customerId: id })
      assert.equal((await send({ url: `/customers/${id}?expand=hints` })).statusCode, 400)
      assert.equal((await send({ url: '/hints?expand=customer' })).statusCode, 400)
      assert.equal((await send({ url: `/customers/${id}/hints` })).statusCode, 404)
      assert.doesNotMatch((await send({ url: '/hints' })).body, /customer/)
      assert.equal((await post('/hints', { text: 'x', customerId: 999_999 })).statusCode, 422)
    })

    it('409 for a duplicate tuple that includes a reference, naming both fields', async () => {
      const [one, other] = [await customer(), await customer()]
      const { number } = await invoice(one.id)
      await invoice(other.id, { number })
      const refused = await post('/invoices', { customerId: one.id, number })
      assert.equal(refused.statusCode, 409)
      assert.deepEqual(
        refused.json().errors.map(({ field }: { field: string }) => field),
        ['customerId', 'number'],
      )
    })

    it('422 for a change to an immutable reference, before the referenced row is looked up', async () => {
      const { id } = await customer()
      const { id: invoiceId, number } = await invoice(id)
      const url = `/invoices/${invoiceId}`
      for (const change of [{ customerId: id + 1_000 }, { correctsId: id + 1_000 }]) {
        const patched = await send({ method: 'PATCH', url, payload: change, headers: mergePatch })
        assert.equal(patched.statusCode, 422)
        const [field] = Object.keys(change)
        assert.deepEqual(patched.json().errors, [{ field, message: 'cannot be changed' }])
      }
      const put = await send({ method: 'PUT', url, payload: { customerId: id + 1_000, number } })
      assert.deepEqual(put.json().errors, [{ field: 'customerId', message: 'cannot be changed' }])
      assert.equal((await send({ method: 'PUT', url, payload: { number: ++count } })).json().customerId, id)
    })

    it('204 for a deletion that clears an immutable reference to the deleted row', async () => {
      const { id } = await customer()
      const first = await invoice(id)
      const second = await invoice(id, { correctsId: first.id })
      assert.equal((await send({ method: 'DELETE', url: `/invoices/${first.id}` })).statusCode, 204)
      const left = await send({ url: `/invoices/${second.id}` })
      assert.equal('correctsId' in left.json(), false)
      assert.equal((await send({ method: 'DELETE', url: `/customers/${id}` })).statusCode, 204)
      assert.equal((await send({ url: `/invoices/${second.id}` })).statusCode, 404)
    })
  })
})
