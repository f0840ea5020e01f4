import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Line, plinth, Ref, Title, Type, view } from '../../../src/plinth.ts'
import { appOn, type TestApp, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const { collection, service } = plinth({ claims: ({ client }) => ({ tenant: client.id }) })
const invoices = collection({
  path: '/invoices',
  noun: 'invoice',
  body: Type.Object({ tenant: Line(1, 40), status: Type.Enum(['draft', 'paid']) }),
  access: ({ claims }) => ({ tenant: claims.tenant }),
  locked: { status: 'paid' },
})
const lines = collection({
  path: '/lines',
  noun: 'line',
  body: Type.Object({ invoiceId: Ref(invoices, { onDelete: 'cascade' }), text: Title }),
  access: { of: 'invoice' },
  locked: { text: 'final' },
})
const remarks = collection({
  path: '/remarks',
  noun: 'remark',
  body: Type.Object({ lineId: Ref(lines, { onDelete: 'cascade' }), text: Title }),
  access: { of: 'line' },
})
const renamed = view(lines, { rename: { invoiceId: 'billId' } })
const all = [invoices, lines, remarks]
const definition = service({ resources: all, versions: { v1: all, v2: [invoices, renamed, remarks] } })
const scopes = Object.keys(definition.scopes).join(' ')

forEachEngine((engine) => {
  describe('rows to which the access rules and locks of another resource apply', () => {
    const app = appOn(engine, { definition })
    const send = (request: Parameters<TestApp['send']>[0], who = 'north') =>
      app.send({ token: token(scopes, who), ...request })
    const create = async (url: string, payload: object): Promise<number> => {
      const created = await send({ method: 'POST', url, payload })
      assert.equal(created.statusCode, 201, created.body)
      return created.json().id
    }
    const invoice = () => create('/invoices', { tenant: 'north', status: 'draft' })
    const pay = async (id: number) => {
      const paid = await send({ method: 'PUT', url: `/invoices/${id}`, payload: { tenant: 'north', status: 'paid' } })
      assert.equal(paid.statusCode, 200, paid.body)
    }
    const refusedBy = async (request: Parameters<TestApp['send']>[0]) => {
      const answer = await send(request)
      assert.deepEqual([answer.statusCode, answer.json().errorCode], [409, 'RESOURCE_LOCKED'], answer.body)
      return answer.json().detail
    }

    it('409 RESOURCE_LOCKED for every write to rows that belong to a locked row', async () => {
      const [invoiceId, other] = [await invoice(), await invoice()]
      const id = await create('/lines', { invoiceId, text: 'Work' })
      const remark = await create('/remarks', { lineId: id, text: 'Hm' })
      const moving = await create('/lines', { invoiceId: other, text: 'Work' })
      const put = (url: string, payload: object) => ({ method: 'PUT', url, payload }) as const
      assert.equal((await send(put(`/lines/${id}`, { invoiceId, text: 'More' }))).statusCode, 200)
      await pay(invoiceId)
      await refusedBy(put(`/lines/${id}`, { invoiceId, text: 'Other' }))
      await refusedBy(put(`/lines/${id}`, { invoiceId: other, text: 'Other' }))
      await refusedBy(put(`/lines/${moving}`, { invoiceId, text: 'Work' }))
      await refusedBy({ method: 'DELETE', url: `/lines/${id}` })
      await refusedBy({ method: 'DELETE', url: `/remarks/${remark}` })
      await refusedBy({ method: 'POST', url: '/remarks', payload: { lineId: id, text: 'Oh' } })
      assert.equal(
        await refusedBy({ method: 'POST', url: '/lines', payload: { invoiceId, text: 'Late' } }),
        `The invoice ${invoiceId} of the line is in a state that allows no changes`,
      )
      const listed = await send({ url: `/invoices/${invoiceId}/lines` })
      assert.deepEqual(
        listed.json().map(({ text }: { text: string }) => text),
        ['More'],
      )
      assert.equal((await send({ url: `/lines/${moving}` })).json().invoiceId, other)
    })

    it('409 for writes to rows that belong to a locked row, in a version that renames the reference', async () => {
      const [invoiceId, other] = [await invoice(), await invoice()]
      const moving = await create('/v2/lines', { billId: other, text: 'Work' })
      await pay(invoiceId)
      await refusedBy({ method: 'POST', url: '/v2/lines', payload: { billId: invoiceId, text: 'Late' } })
      const moved = { billId: invoiceId, text: 'Work' }
      await refusedBy({ method: 'PUT', url: `/v2/lines/${moving}`, payload: moved })
      await refusedBy({ method: 'PATCH', url: `/v2/lines/${moving}`, payload: { billId: invoiceId } })
      assert.equal((await send({ url: `/lines/${moving}` })).json().invoiceId, other)
    })

    it('409 for deleting a locked row or its parent, and for adding a child; 404 for an unreadable row', async () => {
      const invoiceId = await invoice()
      const id = await create('/lines', { invoiceId, text: 'final' })
      const remove = { method: 'DELETE', url: `/lines/${id}` } as const
      await refusedBy(remove)
      await refusedBy({ method: 'POST', url: '/remarks', payload: { lineId: id, text: 'Oh' } })
      await refusedBy({ method: 'DELETE', url: `/invoices/${invoiceId}` })
      assert.equal((await send(remove, 'south')).statusCode, 404)
    })

    it('204 for deleting an unlocked row, along with the rows that belong to it', async () => {
      const invoiceId = await invoice()
      const id = await create('/lines', { invoiceId, text: 'Work' })
      assert.equal((await send({ method: 'DELETE', url: `/invoices/${invoiceId}` })).statusCode, 204)
      assert.equal((await send({ url: `/lines/${id}` })).statusCode, 404)
    })

    it('409 RESOURCE_LOCKED is documented for POST only if new rows can belong to a locked row', async () => {
      const document = (await app.send({ url: '/openapi.json', scopes: null })).json()
      assert.match(JSON.stringify(document.paths['/lines'].post), /RESOURCE_LOCKED/)
      assert.doesNotMatch(JSON.stringify(document.paths['/invoices'].post), /RESOURCE_LOCKED/)
    })
  })
})
