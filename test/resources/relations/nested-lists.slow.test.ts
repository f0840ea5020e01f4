import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { appOn, type TestApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { definition, scopes } from './service.ts'

forEachEngine((engine) => {
  describe('GET /invoices/{id}/line-items', () => {
    const service = appOn(engine, { definition })
    const send: TestApp['send'] = (request) => service.send({ scopes, ...request })
    const create = async (url: string, payload: object): Promise<number> => {
      const answer = await send({ method: 'POST', url, payload })
      assert.equal(answer.statusCode, 201, answer.body)
      return answer.json().id
    }
    const ids = { customer: 0, invoice: 0, empty: 0, other: 0 }
    before(async () => {
      ids.customer = await create('/customers', { name: 'Ada' })
      ids.invoice = await create('/invoices', { reference: 'A', customerId: ids.customer })
      ids.empty = await create('/invoices', { reference: 'B', customerId: ids.customer })
      ids.other = await create('/invoices', { reference: 'C', customerId: ids.customer })
      for (const invoiceId of [ids.invoice, ids.other]) {
        for (const amount of [3, 1, 2, 1]) await create('/line-items', { invoiceId, text: `T${amount}`, amount })
      }
    })
    const url = () => `/invoices/${ids.invoice}/line-items`
    const amounts = async (query = '') => {
      const answer = await send({ url: `${url()}${query}` })
      assert.equal(answer.statusCode, 200, answer.body)
      return answer.json().map((item: { amount: number; invoiceId: number }) => {
        assert.equal(item.invoiceId, ids.invoice)
        return item.amount
      })
    }

    it('200 with only the rows of this invoice, even with a sort, a filter, `fields` or an exact count', async () => {
      assert.deepEqual(await amounts(), [3, 1, 2, 1])
      assert.deepEqual(await amounts('?sort=amount'), [1, 1, 2, 3])
      assert.deepEqual(await amounts('?amount=1'), [1, 1])
      const narrowed = await send({ url: `${url()}?fields=text&amount=2` })
      assert.deepEqual(narrowed.json(), [{ text: 'T2' }])
      const counted = await send({ url: url(), headers: { prefer: 'count=exact' } })
      assert.equal(counted.headers['x-total-count'], '4')
    })

    it('200 with an empty list for an invoice without line items', async () => {
      assert.deepEqual((await send({ url: `/invoices/${ids.empty}/line-items` })).json(), [])
    })

    it('200 with page links under the path of the invoice', async () => {
      const all: number[] = []
      for (let next: string | undefined = `${url()}?limit=3&sort=-amount`; next; ) {
        assert.ok(next.startsWith(url()), next)
        const page = await send({ url: next })
        all.push(...page.json().map(({ amount }: { amount: number }) => amount))
        next = /<([^>]+)>; rel="next"/.exec(String(page.headers.link))?.[1]
      }
      assert.deepEqual(all, [3, 2, 1, 1])
      const enclosed = (await send({ url: `/v2${url()}?limit=1` })).json()
      assert.ok(enclosed.next.startsWith(`/v2${url()}?`), enclosed.next)
    })

    it('400 for a cursor from GET /line-items or from another invoice’s list', async () => {
      const cursorOf = async (list: string) => {
        const { link } = (await send({ url: `${list}?limit=1` })).headers
        return /cursor=([^>&]+)/.exec(String(link))?.[1]
      }
      const statusFor = async (cursor?: string) => (await send({ url: `${url()}?limit=1&cursor=${cursor}` })).statusCode
      assert.equal(await statusFor(await cursorOf(url())), 200)
      for (const list of ['/line-items', `/invoices/${ids.other}/line-items`]) {
        const cursor = await cursorOf(list)
        assert.ok(cursor, list)
        assert.equal(await statusFor(cursor), 400, list)
      }
    })

    it('304 for the tag of an unchanged page, 200 after a change', async () => {
      const first = await send({ url: url() })
      const etag = String(first.headers.etag)
      assert.match(etag, /^W\//)
      const headers = { 'if-none-match': etag }
      assert.equal((await send({ url: url(), headers })).statusCode, 304)
      const [{ id }] = first.json()
      const patched = await send({ method: 'PATCH', url: `/line-items/${id}`, payload: { text: 'New' } })
      assert.equal(patched.statusCode, 200)
      const second = await send({ url: url(), headers })
      assert.deepEqual([second.statusCode, second.json()[0].text], [200, 'New'])
    })

    it('404 for a missing invoice, 400 for an id that is not a number', async () => {
      for (const id of [999_999, 2 ** 40]) {
        assert.equal((await send({ url: `/invoices/${id}/line-items` })).statusCode, 404)
      }
      assert.equal((await send({ url: '/invoices/x/line-items' })).statusCode, 400)
    })

    it('404 for /customers/{id}/invoices, because two fields of an invoice refer to customers', async () => {
      assert.equal((await send({ url: `/customers/${ids.customer}/invoices` })).statusCode, 404)
    })

    it('403 without the scope of one of the two resources, 401 without a token', async () => {
      for (const [only, missing] of [
        ['line-items:read', 'invoices:read'],
        ['invoices:read', 'line-items:read'],
      ] as const) {
        const answer = await send({ url: url(), scopes: only })
        assert.equal(answer.statusCode, 403)
        assert.match(String(answer.headers['www-authenticate']), new RegExp(`scope="${missing}"`))
      }
      assert.equal((await send({ url: url(), scopes: 'line-items:read invoices:read' })).statusCode, 200)
      assert.equal((await send({ url: url(), scopes: null })).statusCode, 401)
    })

    it('is in OpenAPI, with the same response schema as GET /line-items', async () => {
      const { paths } = (await send({ url: '/openapi.json' })).json()
      const nested = paths['/invoices/{id}/line-items'].get
      assert.equal(nested.operationId, 'listLineItemsOfInvoice')
      assert.ok(nested.responses['404'] && nested.responses['403'])
      const schemaOf = (operation: typeof nested) => operation.responses['200'].content['application/json'].schema
      assert.deepEqual(schemaOf(nested), schemaOf(paths['/line-items'].get))
    })
  })
})
