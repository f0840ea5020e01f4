import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { appOn, type TestApp, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { definition, scopes } from './service.ts'

type Who = 'north' | 'south' | 'auditor' | 'nobody'
const callers: Who[] = ['north', 'south', 'auditor', 'nobody']
const mergePatch = { 'content-type': 'application/merge-patch+json' }

forEachEngine((engine) => {
  describe('access rules that follow relations', () => {
    const app = appOn(engine, { prefixes: [''], definition })
    const tokenOf = (who: Who) => token(scopes, who === 'north' || who === 'south' ? `crm_${who}` : who)
    const as = (who: Who, request: Parameters<TestApp['send']>[0]) => app.send({ token: tokenOf(who), ...request })
    const post = (who: Who, url: string, payload: object, headers = {}) =>
      as(who, { method: 'POST', url, payload, headers })
    const patch = (who: Who, url: string, payload: object) =>
      as(who, { method: 'PATCH', url, payload, headers: mergePatch })
    const create = async (who: Who, url: string, payload: object) => {
      const created = await post(who, url, payload)
      assert.equal(created.statusCode, 201, created.body)
      return created.json()
    }
    const customer = (tenant: 'north' | 'south', more: object = {}) =>
      create(tenant, '/customers', { tenant, name: 'Ada', ...more })
    const invoice = async (tenant: 'north' | 'south', more: object = {}) => {
      const { id: customerId } = await customer(tenant)
      return create(tenant, '/invoices', { customerId, status: 'draft', ...more })
    }
    const line = async (tenant: 'north' | 'south') => {
      const { id: invoiceId } = await invoice(tenant)
      return create(tenant, '/lines', { invoiceId, text: 'Work' })
    }
    const statuses = async (request: Parameters<TestApp['send']>[0]) =>
      Object.fromEntries(
        await Promise.all(callers.map(async (who) => [who, (await as(who, request)).statusCode] as const)),
      )
    const idsOf = async (who: Who, url: string): Promise<number[]> => {
      const listed = await as(who, { url })
      assert.equal(listed.statusCode, 200, listed.body)
      return listed.json().map(({ id }: { id: number }) => id)
    }

    it('404 for callers who may not read the related row, 403 for writes by those who may only read it', async () => {
      const { id, invoiceId } = await line('north')
      const { id: remarkId } = await create('north', '/remarks', { lineId: id, text: 'Hm' })
      const readers = { north: 200, auditor: 200, south: 404, nobody: 404 }
      for (const url of [`/invoices/${invoiceId}`, `/lines/${id}`, `/remarks/${remarkId}`]) {
        assert.deepEqual(await statuses({ url }), readers, url)
        assert.deepEqual(await statuses({ url, method: 'HEAD' }), readers, url)
        assert.deepEqual(await statuses({ url: `${url}?fields=id` }), readers, url)
      }
      const written = { auditor: 403, south: 404, nobody: 404 }
      for (const request of [
        { method: 'PATCH', payload: {}, headers: mergePatch },
        { method: 'PUT', payload: { invoiceId, text: 'Other' } },
        { method: 'DELETE', headers: { 'if-match': '"999"' } },
      ] as const) {
        const { north, ...others } = await statuses({ url: `/lines/${id}`, ...request })
        assert.deepEqual(others, written, request.method)
        assert.equal(north, request.method === 'DELETE' ? 412 : 200)
      }
    })

    it('200 with only the rows that the caller may read, in lists, sorted lists and exact counts', async () => {
      const [north, south] = [await line('north'), await line('south')]
      for (const [who, sees] of [
        ['north', [true, false]],
        ['south', [false, true]],
        ['auditor', [true, true]],
        ['nobody', [false, false]],
      ] as const) {
        for (let round = 0; round < 2; round++) {
          const ids = await idsOf(who, '/lines?limit=200')
          assert.deepEqual([ids.includes(north.id), ids.includes(south.id)], sees, who)
        }
        const counted = await as(who, { url: '/lines?limit=1', headers: { prefer: 'count=exact' } })
        const total = (await idsOf(who, '/lines?limit=200')).length
        assert.equal(Number(counted.headers['x-total-count']), total)
        const sorted = await idsOf(who, '/invoices?limit=200&sort=-updatedAt,id')
        assert.deepEqual([sorted.includes(north.invoiceId), sorted.includes(south.invoiceId)], sees, who)
      }
    })

    it('403 for a write that the write rule of the related row forbids, although the row can be read', async () => {
      const { id, invoiceId } = await line('north')
      const sent = await create('north', '/invoices', { customerId: (await customer('north')).id, status: 'draft' })
      const toSent = await patch('north', `/invoices/${sent.id}`, { status: 'sent' })
      // The changed row must also satisfy the write rule.
      assert.equal(toSent.statusCode, 403)
      await app.db.write((tx) =>
        tx
          .updateTable('resourceInvoices' as 'products')
          .set({ status: 'sent' } as never)
          .where('id', '=', invoiceId)
          .execute(),
      )
      assert.equal((await as('north', { url: `/lines/${id}` })).statusCode, 200)
      assert.equal((await patch('north', `/lines/${id}`, { text: 'More' })).statusCode, 403)
      assert.equal((await patch('north', `/lines/${id}`, { invoiceId: sent.id })).statusCode, 403)
      assert.equal((await post('north', '/lines', { invoiceId, text: 'More' })).statusCode, 403)
      assert.equal((await as('north', { method: 'DELETE', url: `/lines/${id}` })).statusCode, 403)
      const other = await create('north', '/lines', { invoiceId: sent.id, text: 'Free' })
      const moved = await patch('north', `/lines/${other.id}`, { invoiceId })
      assert.equal(moved.statusCode, 403)
      assert.equal((await as('north', { url: `/lines/${other.id}` })).json().invoiceId, sent.id)
    })

    it('403 for a new row without the reference that the access rule follows', async () => {
      assert.equal((await post('north', '/remarks', { text: 'Lost' })).statusCode, 403)
      assert.equal((await post('auditor', '/remarks', { text: 'Lost' })).statusCode, 403)
    })

    it('422 for a reference to a row that the caller cannot read, with the message for a missing row', async () => {
      const foreign = await invoice('south')
      const own = await line('north')
      const messageOf = async (response: Promise<Awaited<ReturnType<typeof post>>>, id: number) => {
        const { statusCode, body } = await response
        assert.equal(statusCode, 422, body)
        const { errors, detail } = JSON.parse(body)
        return JSON.stringify([errors, detail]).replace(String(id), 'N')
      }
      const missing = 999_999
      const put = (invoiceId: number) =>
        as('north', { method: 'PUT', url: `/lines/${own.id}`, payload: { invoiceId, text: 'x' } })
      for (const write of [
        (invoiceId: number) => post('north', '/lines', { invoiceId, text: 'x' }),
        (invoiceId: number) => patch('north', `/lines/${own.id}`, { invoiceId }),
        put,
        (invoiceId: number) => post('north', '/payments', { invoiceId, amount: '1.00' }),
      ]) {
        assert.equal(await messageOf(write(foreign.id), foreign.id), await messageOf(write(missing), missing))
      }
      const { id } = await invoice('north')
      assert.equal(
        await messageOf(patch('north', `/invoices/${id}`, { payerId: foreign.customerId }), foreign.customerId),
        await messageOf(patch('north', `/invoices/${id}`, { payerId: missing }), missing),
      )
    })

    it('200 for a change that keeps a reference to a row that the caller can no longer read', async () => {
      const { id: payerId } = await customer('north')
      const own = await invoice('north', { payerId })
      await create('north', '/payments', { invoiceId: own.id, amount: '1.00' })
      await moveTo('south', payerId)
      const kept = await patch('north', `/invoices/${own.id}`, { payerId, status: 'draft' })
      assert.equal(kept.statusCode, 200, kept.body)
      assert.equal((await as('north', { url: `/invoices/${own.id}?expand=payer` })).json().payer, null)
    })

    const moveTo = async (tenant: string, id: number) => {
      await app.db.write((tx) =>
        tx
          .updateTable('resourceCustomers' as 'products')
          .set({ tenant } as never)
          .where('id', '=', id)
          .execute(),
      )
    }

    it('200 with null instead of an expanded row that the caller may not read, in single rows and lists', async () => {
      const own = await line('north')
      const { customerId } = (await as('north', { url: `/invoices/${own.invoiceId}` })).json()
      const payment = await create('north', '/payments', { invoiceId: own.invoiceId, amount: '1.00' })
      const url = `/payments/${payment.id}?expand=invoice.customer,invoice.lines`
      const shown = (await as('north', { url })).json()
      assert.deepEqual([shown.invoice.customer.id, shown.invoice.lines.length], [customerId, 1])
      // Payments have no rules, so everyone can read them; their invoice and its lines have rules.
      assert.equal((await as('south', { url })).json().invoice, null)
      assert.equal((await as('auditor', { url })).json().invoice.lines.length, 1)
      const listed = (await as('south', { url: '/payments?limit=200&expand=invoice' })).json()
      assert.equal(listed.find(({ id }: { id: number }) => id === payment.id).invoice, null)
      // An invoice whose payer belongs to another tenant.
      const paid = await invoice('north', { payerId: (await customer('north')).id })
      await moveTo('south', paid.payerId)
      const seen = (await as('north', { url: `/invoices/${paid.id}?expand=payer,customer` })).json()
      assert.deepEqual([seen.payer, seen.customer.id], [null, paid.customerId])
      assert.deepEqual((await as('auditor', { url: `/customers/${customerId}?fields=id` })).statusCode, 200)
    })

    it('404 for the nested list of a row that the caller may not read, as for a missing row; otherwise 200', async () => {
      const own = await line('north')
      const url = `/invoices/${own.invoiceId}/lines`
      assert.deepEqual(await statuses({ url }), { north: 200, auditor: 200, south: 404, nobody: 404 })
      assert.deepEqual(await idsOf('north', url), [own.id])
      const unseen = await as('south', { url })
      const missing = await as('south', { url: '/invoices/999999/lines' })
      assert.equal(unseen.json().detail.replace(own.invoiceId, ''), missing.json().detail.replace('999999', ''))
    })

    it('409 RESOURCE_IN_USE for a deletion, with the current number of referring rows if the caller can read them', async () => {
      const { id: customerId } = await customer('north')
      const remove = async () => {
        const refused = await as('north', { method: 'DELETE', url: `/customers/${customerId}` })
        assert.equal(refused.statusCode, 409, refused.body)
        return refused.json().errors[0].message
      }
      const first = await create('north', '/invoices', { customerId, status: 'draft' })
      assert.equal(await remove(), 'is referred to by 1 invoices')
      const { id: other } = await customer('north')
      await create('north', '/invoices', { customerId, status: 'draft' })
      assert.equal(await remove(), 'is referred to by 2 invoices')
      assert.equal((await patch('north', `/invoices/${first.id}`, { customerId: other })).statusCode, 200)
      assert.equal(await remove(), 'is referred to by 1 invoices')
    })

    it('409 RESOURCE_IN_USE for a deletion, without the number of referring rows if the token lacks their read scope', async () => {
      const { id: customerId } = await customer('north')
      await create('north', '/invoices', { customerId, status: 'draft' })
      const sent = token('customers:read customers:write', 'crm_north')
      const refused = await app.send({ token: sent, method: 'DELETE', url: `/customers/${customerId}` })
      assert.deepEqual([refused.statusCode, refused.json().errors[0].message], [409, 'is referred to by invoices'])
    })

    it('409 RESOURCE_IN_USE for a deletion, with the number of referring rows that the caller can read, if any', async () => {
      const { id: customerId } = await customer('north')
      const colleague = { token: token(scopes, 'app_north'), method: 'POST', url: '/memos' } as const
      for (const text of ['secret one', 'secret two']) {
        assert.equal((await app.send({ ...colleague, payload: { customerId, text } })).statusCode, 201)
      }
      const request = { method: 'DELETE', url: `/customers/${customerId}` } as const
      const unseen = await as('north', request)
      assert.deepEqual(
        [unseen.statusCode, unseen.json().detail, unseen.json().errors[0].message],
        [409, `The customer ${customerId} is referred to by memos`, 'is referred to by memos'],
      )
      await create('north', '/memos', { customerId, text: 'own' })
      assert.equal((await as('north', request)).json().errors[0].message, 'is referred to by 1 memos')
      const seen = await app.send({ ...request, token: colleague.token })
      assert.equal(seen.json().errors[0].message, 'is referred to by 2 memos')
    })

    it('204 for a deletion that cascades over two levels of referring rows with access rules', async () => {
      const { id: invoiceId } = await invoice('north')
      const { id } = await create('north', '/lines', { invoiceId, text: 'Work' })
      const { id: remarkId } = await create('north', '/remarks', { lineId: id, text: 'Hm' })
      assert.equal((await as('north', { method: 'DELETE', url: `/invoices/${invoiceId}` })).statusCode, 204)
      for (const url of [`/lines/${id}`, `/remarks/${remarkId}`]) {
        assert.equal((await as('auditor', { url })).statusCode, 404)
      }
    })

    it('204 for a deletion that clears a reference in a row that the caller cannot read', async () => {
      const { id: payerId } = await customer('south')
      const { id, payerId: before } = await invoice('south', { payerId })
      assert.equal(before, payerId)
      await moveTo('north', payerId)
      assert.equal((await as('north', { url: `/invoices/${id}` })).statusCode, 404)
      assert.equal((await as('north', { method: 'DELETE', url: `/customers/${payerId}` })).statusCode, 204)
      const changed = await as('south', { url: `/invoices/${id}` })
      assert.deepEqual([changed.statusCode, changed.json().payerId], [200, undefined])
    })

    it('hide the rows of a customer that moves to another tenant, until the customer moves back', async () => {
      const own = await line('north')
      const { customerId } = (await as('north', { url: `/invoices/${own.invoiceId}` })).json()
      const paths = [`/invoices/${own.invoiceId}`, `/lines/${own.id}`, `/invoices/${own.invoiceId}/lines`]
      const lists = ['/lines?limit=200', '/lines?limit=200&invoice.status=draft', '/invoices?limit=200']
      const seen = async () => {
        const single = await Promise.all(
          paths.map(async (url) => (await as('north', { url, headers: { 'if-none-match': '"1"' } })).statusCode),
        )
        const listed = await Promise.all(lists.map((url) => idsOf('north', url)))
        return [
          ...single.map((status) => status !== 404),
          ...listed.map((ids, at) => ids.includes(lists[at]?.startsWith('/lines') ? own.id : own.invoiceId)),
        ]
      }
      const [all, none] = [Array(6).fill(true), Array(6).fill(false)]
      // Send each request twice, so that the second response may come from a cache.
      assert.deepEqual([await seen(), await seen()], [all, all])
      await moveTo('south', customerId)
      assert.deepEqual([await seen(), await seen()], [none, none])
      await moveTo('north', customerId)
      assert.deepEqual([await seen(), await seen()], [all, all])
    })

    it('201 for a replayed POST while the caller can read the created row, otherwise 404', async () => {
      const { id: customerId } = await customer('north')
      const payload = { customerId, status: 'draft' }
      const headers = { 'idempotency-key': 'one-invoice' }
      const first = await post('north', '/invoices', payload, headers)
      assert.equal(first.statusCode, 201)
      const again = await post('north', '/invoices', payload, headers)
      assert.deepEqual([again.statusCode, again.headers['idempotent-replayed']], [201, 'true'])
      await moveTo('south', customerId)
      const unseen = await post('north', '/invoices', payload, headers)
      assert.equal(unseen.statusCode, 404, unseen.body)
      assert.doesNotMatch(unseen.body, /"customerId"/)
      await moveTo('north', customerId)
      assert.equal((await post('north', '/invoices', payload, headers)).json().id, first.json().id)
    })
  })
})
