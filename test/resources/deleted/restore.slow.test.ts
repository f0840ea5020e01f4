import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import { sql } from 'kysely'
import { expireDeletedRows } from '../../../src/storage/deleted-rows.ts'
import { appOn, type TestApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { definition, scopes } from './service.ts'

type Answer = Awaited<ReturnType<TestApp['send']>>
type Item = Record<string, unknown>

const dayMs = 86_400_000

forEachEngine((engine) => {
  describe('deleted rows', () => {
    const service = appOn(engine, { definition })
    const send: TestApp['send'] = (request) => service.send({ scopes, ...request })
    const post = (url: string, payload?: object, headers = {}) =>
      send({ method: 'POST', url, headers, ...(payload && { payload }) })
    const create = async (url: string, payload: object): Promise<Answer> => {
      const answer = await post(url, payload)
      assert.equal(answer.statusCode, 201, answer.body)
      return answer
    }
    const remove = async (url: string) => {
      const answer = await send({ method: 'DELETE', url })
      assert.equal(answer.statusCode, 204, answer.body)
    }
    const restore = (name: string, id: unknown, headers = {}) =>
      post(`/api/deleted/${name}/${id}/restore`, undefined, headers)
    const deleted = async (name: string): Promise<Item[]> => (await send({ url: `/api/deleted/${name}` })).json()
    const idsOf = async (name: string) => (await deleted(name)).map(({ id }) => id)
    const status = async (url: string) => (await send({ url })).statusCode
    const refused = (answer: Answer, code: number, errorCode: string, ...fields: string[]) => {
      const { errorCode: sent, errors = [] } = answer.json()
      const named = errors.map(({ field }: { field: string }) => field)
      assert.deepEqual([answer.statusCode, sent, ...named], [code, errorCode, ...fields], answer.body)
    }

    let made = 0
    const customer = async (more: object = {}): Promise<string> =>
      (await create('/customers', { name: `Customer ${++made}`, ...more })).json().id
    const invoice = async (customerId: string, more: object = {}): Promise<number> => {
      const body = { reference: `R-${++made}`, customerId, status: 'draft', isOpen: true, amount: '1.00', ...more }
      return (await create('/invoices', body)).json().id
    }
    const line = async (invoiceId: number, amount = '2.50'): Promise<number> =>
      (await create('/lines', { invoiceId, text: 'Work', amount })).json().id

    beforeEach(() => service.db.write((tx) => tx.deleteFrom('deletedRows').execute()))

    describe('POST /api/deleted/{resource}/{id}/restore', () => {
      const full = {
        status: 'sent',
        isOpen: false,
        rate: 0.1,
        amount: '9007199254740993.99',
        due: '2026-05-01',
        sentAt: '2026-04-01T08:00:00.000Z',
        tags: ['a', 'ü'],
        pin: '1234',
      }

      it('201 with Location, the same id, values and createdAt, and a new revision', async () => {
        const id = await invoice(await customer(), full)
        const before = await send({ url: `/invoices/${id}` })
        assert.equal(before.headers.etag, '"1"')
        await remove(`/invoices/${id}`)
        assert.equal(await status(`/invoices/${id}`), 404)
        service.clock.now += 5_000
        const answer = await restore('invoices', id)
        assert.equal(answer.statusCode, 201, answer.body)
        assert.equal(answer.headers.location, `/invoices/${id}`)
        assert.equal(answer.headers.etag, '"2"')
        const { updatedAt, ...values } = answer.json()
        const { updatedAt: _, ...stored } = before.json()
        assert.deepEqual(values, stored)
        assert.equal(updatedAt, new Date(service.clock.now).toISOString())
        const after = await send({ url: `/invoices/${id}` })
        assert.deepEqual([after.headers.etag, after.body], [answer.headers.etag, answer.body])
      })

      it('restores write-only and hidden values, which neither the list nor the response shows', async () => {
        const customerId = await customer({ notes: 'Confidential' })
        const id = await invoice(customerId, full)
        await remove(`/customers/${customerId}`)
        for (const name of ['customers', 'invoices']) {
          const list = await send({ url: `/api/deleted/${name}`, scopes: `${scopes} customers:read:full` })
          assert.doesNotMatch(list.body, /Confidential|1234/)
        }
        assert.doesNotMatch((await restore('customers', customerId)).body, /Confidential/)
        const whole = await send({ url: `/customers/${customerId}`, scopes: `${scopes} customers:read:full` })
        assert.equal(whole.json().notes, 'Confidential')
        assert.doesNotMatch((await restore('invoices', id)).body, /1234/)
        const { rows } = await sql<{ pin: string }>`select pin from resource_invoices where id = ${id}`.execute(
          service.db.read,
        )
        assert.deepEqual(rows, [{ pin: '1234' }])
      })

      it('makes the row appear in filtered, sorted and searched lists again', async () => {
        const id = await invoice(await customer(), { reference: 'Größe 7' })
        await remove(`/invoices/${id}`)
        await restore('invoices', id)
        for (const query of ['reference=GR%C3%96%C3%9FE%207', 'q=gr%C3%B6%C3%9Fe', 'sort=-amount'])
          assert.ok(
            (await send({ url: `/invoices?${query}` })).json().some((row: Item) => row.id === id),
            query,
          )
      })

      it('gives the row an entity tag that no earlier revision had', async () => {
        const id = await invoice(await customer())
        const tags = [(await send({ url: `/invoices/${id}` })).headers.etag]
        for (let turn = 0; turn < 3; turn++) {
          await remove(`/invoices/${id}`)
          tags.push((await restore('invoices', id)).headers.etag)
          tags.push((await send({ method: 'PATCH', url: `/invoices/${id}`, payload: { rate: turn } })).headers.etag)
        }
        assert.equal(new Set(tags).size, tags.length)
        const answer = await send({
          method: 'DELETE',
          url: `/invoices/${id}`,
          headers: { 'if-match': tags[1] as string },
        })
        assert.equal(answer.statusCode, 412)
      })

      it('records a created event', async () => {
        const id = await invoice(await customer())
        await remove(`/invoices/${id}`)
        const hook = await create('/api/webhooks', { event: 'invoice.*', callbackUrl: 'http://127.0.0.1:9/deleted' })
        await restore('invoices', id)
        const events = await service.db.read.selectFrom('events').select(['type', 'body']).execute()
        await remove(`/api/webhooks/${hook.json().id}`)
        assert.deepEqual(
          events.map(({ type, body }) => [type, JSON.parse(body).id]),
          [['invoice.created', id]],
        )
      })

      it('updates sums and counts that include the row; the row’s own sums and counts start at zero', async () => {
        const id = await invoice(await customer())
        const [one, two] = [await line(id), await line(id, '4.00')]
        const totals = async () => {
          const { lineCount, total } = (await send({ url: `/invoices/${id}` })).json()
          return [lineCount, total]
        }
        await remove(`/lines/${one}`)
        assert.deepEqual(await totals(), [1, '4.00'])
        await restore('lines', one)
        assert.deepEqual(await totals(), [2, '6.50'])
        await remove(`/invoices/${id}`)
        await restore('invoices', id)
        assert.deepEqual(await totals(), [0, '0.00'])
        await restore('lines', two)
        assert.deepEqual(await totals(), [1, '4.00'])
      })

      it('restores each row of a cascade separately; 422 until the row that it refers to is restored', async () => {
        const customerId = await customer()
        const id = await invoice(customerId)
        const lineId = await line(id)
        await remove(`/customers/${customerId}`)
        refused(await restore('lines', lineId), 422, 'VALIDATION_ERROR', 'invoiceId')
        refused(await restore('invoices', id), 422, 'VALIDATION_ERROR', 'customerId')
        for (const [name, one] of [
          ['customers', customerId],
          ['invoices', id],
          ['lines', lineId],
        ] as const) {
          assert.deepEqual(await idsOf(name), [one])
          assert.equal((await restore(name, one)).statusCode, 201)
          assert.deepEqual(await idsOf(name), [])
        }
        assert.equal((await send({ url: `/invoices/${id}` })).json().lineCount, 1)
      })

      it('422 if a referenced row has been deleted since; 201 once that row is restored', async () => {
        const customerId = await customer()
        const id = await invoice(customerId)
        await remove(`/invoices/${id}`)
        await remove(`/customers/${customerId}`)
        refused(await restore('invoices', id), 422, 'VALIDATION_ERROR', 'customerId')
        assert.deepEqual(await idsOf('invoices'), [id])
        await restore('customers', customerId)
        assert.equal((await restore('invoices', id)).statusCode, 201)
      })

      it('409 if another row now has the unique value; 201 once that row is deleted', async () => {
        const email = `ada${++made}@example.com`
        const id = await customer({ email })
        await remove(`/customers/${id}`)
        const other = await customer({ email: email.toUpperCase() })
        refused(await restore('customers', id), 409, 'DUPLICATE_RESOURCE', 'email')
        assert.deepEqual(await idsOf('customers'), [id])
        await remove(`/customers/${other}`)
        assert.equal((await restore('customers', id)).statusCode, 201)
      })

      it('404 for a row that was not deleted, was restored, never existed or belongs to another resource', async () => {
        const id = await invoice(await customer())
        refused(await restore('invoices', id), 404, 'RESOURCE_NOT_FOUND')
        await remove(`/invoices/${id}`)
        refused(await restore('lines', id), 404, 'RESOURCE_NOT_FOUND')
        assert.equal((await restore('invoices', id)).statusCode, 201)
        refused(await restore('invoices', id), 404, 'RESOURCE_NOT_FOUND')
        refused(await restore('invoices', 2_147_483_647), 404, 'RESOURCE_NOT_FOUND')
        refused(await restore('invoices', 2 ** 40), 404, 'RESOURCE_NOT_FOUND')
      })

      it('400 for an id that is not of the resource’s type', async () => {
        assert.equal((await restore('invoices', 'x')).statusCode, 400)
        assert.equal((await restore('customers', 7)).statusCode, 400)
      })

      it('404 for a resource without `keepDeleted`', async () => {
        const { id } = (await create('/remarks', { text: 'Gone' })).json()
        await remove(`/remarks/${id}`)
        assert.equal((await restore('remarks', id)).statusCode, 404)
        assert.equal(await status('/api/deleted/remarks'), 404)
        const kept = await service.db.read.selectFrom('deletedRows').selectAll().execute()
        assert.deepEqual(kept, [])
      })

      it('201 for one of ten concurrent requests, 404 for the others', async () => {
        const id = await invoice(await customer())
        await remove(`/invoices/${id}`)
        const answers = await Promise.all(Array.from({ length: 10 }, () => restore('invoices', id)))
        const statuses = answers.map(({ statusCode }) => statusCode).sort()
        assert.deepEqual(statuses, [201, ...Array(9).fill(404)])
      })

      it('leaves the row stored or deleted, but not both, after concurrent deletions and restores', async () => {
        const id = await invoice(await customer())
        await Promise.all(
          Array.from({ length: 20 }, (_, at) =>
            at % 2 === 0 ? send({ method: 'DELETE', url: `/invoices/${id}` }) : restore('invoices', id),
          ),
        )
        const isStored = (await status(`/invoices/${id}`)) === 200
        assert.deepEqual(await idsOf('invoices'), isStored ? [] : [id])
      })

      it('201 with the first response when a restore is repeated with the same Idempotency-Key', async () => {
        const id = await invoice(await customer())
        await remove(`/invoices/${id}`)
        const headers = { 'idempotency-key': `restore-${id}` }
        const [first, second] = [await restore('invoices', id, headers), await restore('invoices', id, headers)]
        assert.deepEqual([first.statusCode, second.statusCode], [201, 201])
        assert.deepEqual(second.json(), first.json())
        assert.equal(second.headers['idempotent-replayed'], 'true')
      })

      it('403 without the write scope, also for the list and the final deletion', async () => {
        const id = await invoice(await customer())
        await remove(`/invoices/${id}`)
        const lacking = scopes.replace('invoices:write', '')
        for (const request of [
          { url: '/api/deleted/invoices' },
          { method: 'POST', url: `/api/deleted/invoices/${id}/restore` },
          { method: 'DELETE', url: `/api/deleted/invoices/${id}` },
        ] as const)
          refused(await send({ ...request, scopes: lacking }), 403, 'ACCESS_DENIED')
        assert.deepEqual(await idsOf('invoices'), [id])
      })
    })

    describe('GET /api/deleted/{resource}', () => {
      it('200 with each row as it was listed but without links, and with deletedAt, deletedBy and expiresAt', async () => {
        const id = await invoice(await customer(), { tags: ['x'] })
        const [item] = (await send({ url: '/invoices?limit=200&sort=-id' })).json()
        const { _links, ...resource } = item
        await remove(`/invoices/${id}`)
        const at = service.clock.now
        assert.deepEqual(await deleted('invoices'), [
          {
            id,
            deletedAt: new Date(at).toISOString(),
            deletedBy: 'client:cli_test',
            expiresAt: new Date(at + 2 * dayMs).toISOString(),
            resource,
          },
        ])
      })

      it('200 with each row on exactly one page; the pages are linked in both directions', async () => {
        const customerId = await customer()
        const ids: number[] = []
        for (let turn = 0; turn < 7; turn++) {
          const id = await invoice(customerId)
          ids.unshift(id)
          if (turn % 2 === 0) service.clock.now += 1_000
          await remove(`/invoices/${id}`)
        }
        const linkOf = ({ headers }: Answer, rel: string) =>
          new RegExp(`<([^>]+)>; rel="${rel}"`).exec(String(headers.link))?.[1]
        const seen: number[] = []
        let page = await send({ url: '/api/deleted/invoices?limit=3' })
        const pages: number[][] = []
        for (;;) {
          const found = page.json().map(({ id }: Item) => id)
          pages.push(found)
          seen.push(...found)
          const next = linkOf(page, 'next')
          if (next === undefined) break
          page = await send({ url: next })
        }
        assert.deepEqual(
          pages.map(({ length }) => length),
          [3, 3, 1],
        )
        assert.deepEqual(new Set(seen), new Set(ids))
        assert.deepEqual(await idsOf('invoices'), seen)
        const back = await send({ url: linkOf(page, 'prev') as string })
        assert.deepEqual(
          back.json().map(({ id }: Item) => id),
          pages[1],
        )
      })

      it('200 with only the members in `fields`', async () => {
        const id = await invoice(await customer(), { reference: 'Part' })
        await remove(`/invoices/${id}`)
        const answer = await send({ url: '/api/deleted/invoices?fields=id,resource.reference' })
        assert.deepEqual(answer.json(), [{ id, resource: { reference: 'Part' } }])
      })

      it('403 without the read scope', async () => {
        const lacking = scopes.replace('invoices:read', '')
        refused(await send({ url: '/api/deleted/invoices', scopes: lacking }), 403, 'ACCESS_DENIED')
      })

      it('400 for a cursor that does not belong to this list', async () => {
        const cursor = Buffer.from(JSON.stringify(['x', 0, 'a', 'b'])).toString('base64url')
        assert.equal(await status(`/api/deleted/invoices?cursor=${cursor}`), 400)
      })
    })

    describe('after the keepDeleted period', () => {
      it('404 for a restore; the list omits the row, and the sweep deletes it', async () => {
        const customerId = await customer()
        const ids = [await invoice(customerId), await invoice(customerId)]
        await remove(`/invoices/${ids[0]}`)
        service.clock.now += 2 * dayMs - 1
        await remove(`/invoices/${ids[1]}`)
        assert.equal((await deleted('invoices')).length, 2)
        service.clock.now += 1
        assert.deepEqual(await idsOf('invoices'), [ids[1]])
        refused(await restore('invoices', ids[0]), 404, 'RESOURCE_NOT_FOUND')
        service.clock.now += 1
        assert.equal(await expireDeletedRows(service.db, () => service.clock.now), 1)
        const kept = await service.db.read.selectFrom('deletedRows').select('rowId').execute()
        assert.deepEqual(kept, [{ rowId: String(ids[1]) }])
      })
    })

    describe('DELETE /api/deleted/{resource}/{id}', () => {
      it('204, then 404 for the same request and for a restore', async () => {
        const id = await customer()
        await remove(`/customers/${id}`)
        await remove(`/api/deleted/customers/${id}`)
        refused(await restore('customers', id), 404, 'RESOURCE_NOT_FOUND')
        refused(await send({ method: 'DELETE', url: `/api/deleted/customers/${id}` }), 404, 'RESOURCE_NOT_FOUND')
        assert.deepEqual(await service.db.read.selectFrom('deletedRows').selectAll().execute(), [])
      })
    })

    describe('deleted rows in a version with a view', () => {
      it('200 for the list and 201 for a restore, with the view’s names; hidden fields keep their values', async () => {
        const id = await invoice(await customer(), { reference: 'V-1', amount: '12.34' })
        await remove(`/v2/invoices/${id}`)
        const { items } = (await send({ url: '/v2/api/deleted/invoices' })).json()
        assert.deepEqual([items[0].resource.number, items[0].resource.amount], ['V-1', undefined])
        const answer = await post(`/v2/api/deleted/invoices/${id}/restore`)
        assert.equal(answer.statusCode, 201, answer.body)
        assert.deepEqual([answer.json().number, answer.json().reference], ['V-1', undefined])
        assert.equal(answer.headers.location, `/v2/invoices/${id}`)
        assert.equal((await send({ url: `/v1/invoices/${id}` })).json().amount, '12.34')
      })
    })
  })
})
