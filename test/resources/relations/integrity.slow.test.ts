import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { sql } from 'kysely'
import { appOn, type TestApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { definition, scopes } from './service.ts'

type Answer = Awaited<ReturnType<TestApp['send']>>

forEachEngine((engine) => {
  describe('references', () => {
    const service = appOn(engine, { definition })
    const send: TestApp['send'] = (request) => service.send({ scopes, ...request })
    const post = (url: string, payload: object) => send({ method: 'POST', url, payload })
    const create = async (url: string, payload: object): Promise<number> => {
      const answer = await post(url, payload)
      assert.equal(answer.statusCode, 201, answer.body)
      return answer.json().id
    }
    let made = 0
    const customer = () => create('/customers', { name: `Customer ${++made}` })
    const invoice = (customerId: number, more: object = {}) =>
      create('/invoices', { reference: `R-${++made}`, customerId, ...more })
    const line = (invoiceId: number) => create('/line-items', { invoiceId, text: 'Work', amount: 1 })
    const remove = (url: string, headers = {}) => send({ method: 'DELETE', url, headers })
    const status = async (url: string) => (await send({ url })).statusCode
    const refused = (answer: Answer, code: number, ...fields: string[]) => {
      const errors: { field: string }[] = answer.json().errors ?? []
      assert.deepEqual([answer.statusCode, ...errors.map(({ field }) => field)], [code, ...fields], answer.body)
    }
    /** Returns the events that `work` causes, sorted by type, because ids created in one millisecond are unordered. */
    const eventsOf = async (work: () => Promise<unknown>) => {
      const payload = { event: '*', callbackUrl: `http://127.0.0.1:9/${++made}` }
      const registered = await post('/api/webhooks', payload)
      assert.equal(registered.statusCode, 201, registered.body)
      await service.db.write((tx) => tx.deleteFrom('events').execute())
      await work()
      const events = await service.db.read.selectFrom('events').select(['type', 'body']).orderBy('type').execute()
      await remove(`/api/webhooks/${registered.json().id}`)
      return events.map(({ type, body }) => ({ type, body: JSON.parse(body) }))
    }

    describe('GET, POST, PUT and PATCH', () => {
      it('201 for a reference to an existing row; a filter by this reference finds the new row', async () => {
        const customerId = await customer()
        const id = await invoice(customerId)
        const found = (await send({ url: `/invoices?customerId=${customerId}` })).json()
        assert.deepEqual(
          found.map((item: { id: number; customerId: number }) => [item.id, item.customerId]),
          [[id, customerId]],
        )
      })

      it('200 for filter operators on references and in nested lists; 400 for a value that is not an id', async () => {
        const [one, two, three] = [await customer(), await customer(), await customer()]
        const rows = [await invoice(one), await invoice(two, { payerId: one }), await invoice(three)]
        const ids = async (query: string) =>
          (await send({ url: `/invoices?${query}` })).json().map(({ id }: { id: number }) => id)
        assert.deepEqual(await ids(`customerId[in]=${one},${two}`), rows.slice(0, 2))
        assert.deepEqual(await ids(`customerId[in]=${one},${two}&customerId[not]=${one}`), [rows[1]])
        assert.deepEqual(await ids(`or=customerId:${three},customerId:${one}`), [rows[0], rows[2]])
        await line(rows[0] as number)
        const nested = await send({ url: `/invoices/${rows[0]}/line-items?amount[in]=1,2` })
        assert.equal(nested.json().length, 1)
        assert.equal((await send({ url: `/invoices/${rows[0]}/line-items?amount[not]=1` })).json().length, 0)
        refused(await send({ url: '/invoices?customerId[in]=x' }), 400, 'customerId[in]')
      })

      it('422 naming every field that refers to a missing row, and nothing is stored', async () => {
        const rows = async () => (await send({ url: '/invoices?limit=200' })).json().length
        const before = await rows()
        const answer = await post('/invoices', { reference: 'X', customerId: 2_147_483_647, payerId: 999_999 })
        refused(answer, 422, 'customerId', 'payerId')
        assert.equal(answer.json().errors[0].message, 'refers to no customer: there is no 2147483647')
        assert.equal(await rows(), before)
      })

      const malformed: [what: string, value: unknown, status: number][] = [
        ['text', 'x', 400],
        ['a fraction', 1.5, 400],
        ['zero', 0, 422],
        ['a number greater than any id', 2 ** 31, 422],
      ]
      for (const [what, customerId, code] of malformed) {
        it(`${code} for a reference that is ${what}`, async () => {
          refused(await post('/invoices', { reference: 'X', customerId }), code, 'customerId')
        })
      }

      it('422 if a PUT or PATCH refers to a missing row; nothing changes', async () => {
        const url = `/invoices/${await invoice(await customer())}`
        const before = await send({ url })
        refused(await send({ method: 'PATCH', url, payload: { customerId: 999_999 } }), 422, 'customerId')
        const put = { reference: 'X', customerId: before.json().customerId, payerId: 999_999 }
        refused(await send({ method: 'PUT', url, payload: put }), 422, 'payerId')
        const after = await send({ url })
        assert.deepEqual([after.headers.etag, after.body], [before.headers.etag, before.body])
      })

      it('404 and 412 take precedence over 422', async () => {
        const payload = { reference: 'X', customerId: 999_999 }
        refused(await send({ method: 'PUT', url: '/invoices/999999', payload }), 404)
        const url = `/invoices/${await invoice(await customer())}`
        refused(await send({ method: 'PUT', url, payload, headers: { 'if-match': '"9"' } }), 412)
      })

      it('200 for patches that set and remove an optional reference', async () => {
        const customerId = await customer()
        const url = `/invoices/${await invoice(customerId)}`
        const patch = async (payerId: number | null) =>
          (await send({ method: 'PATCH', url, payload: { payerId } })).json().payerId
        assert.deepEqual([await patch(customerId), await patch(null)], [customerId, undefined])
      })

      it('201 for a repeated Idempotency-Key, even if the referenced row was deleted', async () => {
        const customerId = await customer()
        const headers = { 'idempotency-key': `key-${customerId}` }
        const payload = { reference: 'K', customerId }
        const first = await send({ method: 'POST', url: '/invoices', payload, headers })
        await remove(`/invoices/${first.json().id}`)
        await remove(`/customers/${customerId}`)
        const second = await send({ method: 'POST', url: '/invoices', payload, headers })
        assert.deepEqual([second.statusCode, second.body], [201, first.body])
        assert.equal(second.headers['idempotent-replayed'], 'true')
      })

      it('are also enforced by the database, with foreign keys', async () => {
        const insert = sql.raw(`insert into resource_line_items
          (invoice_id, text, amount, revision, created_at, updated_at) values (999999, 'x', 1, 1, 'x', 'x')`)
        await assert.rejects(
          service.db.write((tx) => insert.execute(tx)),
          /foreign key/i,
        )
      })
    })

    describe('DELETE', () => {
      it('409 with restrict, stating the number and the collection of the referring rows; the row remains', async () => {
        const id = await customer()
        for (let n = 0; n < 3; n++) await invoice(id)
        const answer = await remove(`/customers/${id}`)
        refused(answer, 409, 'id')
        assert.equal(answer.json().errorCode, 'RESOURCE_IN_USE')
        assert.equal(answer.json().detail, `The customer ${id} is referred to by 3 invoices`)
        assert.equal(await status(`/customers/${id}`), 200)
      })

      it('404 and 412 take precedence over 409', async () => {
        const id = await customer()
        await invoice(id)
        refused(await remove(`/customers/${id}`, { 'if-match': '"9"' }), 412)
        refused(await remove('/customers/999999'), 404)
      })

      it('204 with cascade: the referring rows are also deleted, with an event for each', async () => {
        const id = await invoice(await customer())
        const [first, second] = [await line(id), await line(id)]
        const remark = await create('/remarks', { lineId: first, text: 'T' })
        const events = await eventsOf(async () => assert.equal((await remove(`/invoices/${id}`)).statusCode, 204))
        const deleted = events.map(({ type, body }) => `${type} ${body.id}`).sort()
        const expected = [`invoice.deleted ${id}`, `line.deleted ${first}`, `line.deleted ${second}`]
        assert.deepEqual(deleted, [...expected, `remark.deleted ${remark}`].sort())
        for (const url of [`/line-items/${first}`, `/line-items/${second}`, `/remarks/${remark}`, `/invoices/${id}`]) {
          assert.equal(await status(url), 404)
        }
      })

      it('204 with setNull: the referring row remains, with a new revision and an event', async () => {
        const payerId = await customer()
        const id = await invoice(await customer(), { payerId, total: '9999999999999999.99' })
        const before = await send({ url: `/invoices/${id}` })
        service.clock.now += 5_000
        const events = await eventsOf(async () => assert.equal((await remove(`/customers/${payerId}`)).statusCode, 204))
        const after = await send({ url: `/invoices/${id}` })
        assert.deepEqual([before.headers.etag, after.headers.etag], ['"1"', '"2"'])
        assert.equal(after.json().payerId, undefined)
        assert.notEqual(after.json().updatedAt, before.json().updatedAt)
        assert.deepEqual(
          events.map(({ type }) => type),
          ['customer.deleted', 'invoice.updated'],
        )
        assert.deepEqual(events[1]?.body, after.json())
      })

      it('204 for a tree within one collection, even if its rows form a cycle', async () => {
        const root = await create('/projects', { name: 'root' })
        const child = await create('/projects', { name: 'child', parentId: root })
        const leaf = await create('/projects', { name: 'leaf', parentId: child })
        const used = await invoice(await customer(), { projectId: leaf })
        await send({ method: 'PATCH', url: `/projects/${root}`, payload: { parentId: leaf } })
        assert.equal((await remove(`/projects/${child}`)).statusCode, 204)
        for (const id of [root, child, leaf]) assert.equal(await status(`/projects/${id}`), 404)
        assert.equal((await send({ url: `/invoices/${used}` })).json().projectId, undefined)
      })

      it('204 for a deletion that cascades to 1,000 rows, 409 if there are more', async () => {
        const id = await invoice(await customer())
        await service.db.write((tx) =>
          sql`insert into resource_line_items (invoice_id, text, amount, revision, created_at, updated_at)
            with recursive n (n) as (select 1 union all select n + 1 from n where n < 1001)
            select cast(${id} as integer), 'x', n, 1, 'x', 'x' from n`.execute(tx),
        )
        const answer = await remove(`/invoices/${id}`)
        refused(answer, 409)
        assert.match(answer.json().detail, /more than 1000 other resources/)
        const [one] = (await send({ url: `/line-items?amount=1001` })).json()
        assert.equal((await remove(`/line-items/${one.id}`)).statusCode, 204)
        assert.equal((await remove(`/invoices/${id}`)).statusCode, 204)
        assert.deepEqual((await send({ url: '/line-items?amount=500' })).json(), [])
      })

      it('422 for a new row or 409 for the concurrent deletion of the row it refers to, never success for both', async () => {
        const ids = await Promise.all(Array.from({ length: 12 }, customer))
        await Promise.all(
          ids.map(async (id) => {
            const [made, gone] = await Promise.all([
              post('/invoices', { reference: 'R', customerId: id }),
              remove(`/customers/${id}`),
            ])
            const outcome = `${made.statusCode} ${gone.statusCode}`
            assert.ok(['201 409', '422 204'].includes(outcome), outcome)
          }),
        )
      })
    })

    it('appear in report types and in OpenAPI, which documents 409 only for deletions of rows that can be referenced', async () => {
      const document = (await send({ url: '/openapi.json' })).json()
      assert.ok(document.paths['/customers/{id}'].delete.responses['409'])
      assert.ok(!document.paths['/remarks/{id}'].delete.responses['409'])
      const { customerId } = document.components.schemas.Invoice.properties
      assert.deepEqual(
        [customerId.type, customerId.minimum, customerId.description],
        ['integer', 1, 'The id of the customer'],
      )
      const types = (await send({ url: '/api/report-types' })).json()
      const report = types.find(({ reportType }: { reportType: string }) => reportType === 'invoices')
      assert.match(JSON.stringify(report), /customerId/)
    })
  })
})
