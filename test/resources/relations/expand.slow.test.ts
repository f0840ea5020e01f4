import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { sql } from 'kysely'
import type { Database } from '../../../src/storage/database.ts'
import { appOn, type TestApp, testApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { definition, scopes } from './service.ts'

forEachEngine((engine) => {
  describe('expand', () => {
    const service = appOn(engine, { definition })
    const send: TestApp['send'] = (request) => service.send({ scopes, ...request })
    const create = async (url: string, payload: object): Promise<{ id: number; [name: string]: unknown }> => {
      const answer = await send({ method: 'POST', url, payload })
      assert.equal(answer.statusCode, 201, answer.body)
      return answer.json()
    }
    type Resource = Awaited<ReturnType<typeof create>>
    const rows = {} as Record<'ada' | 'bob' | 'first' | 'second' | 'line' | 'remark' | 'root', Resource>
    before(async () => {
      rows.ada = await create('/customers', { name: 'Ada', notes: 'secret' })
      rows.bob = await create('/customers', { name: 'Bob' })
      rows.root = await create('/projects', { name: 'Root' })
      const customerId = rows.ada.id
      const projectId = rows.root.id
      rows.first = await create('/invoices', {
        reference: 'A',
        customerId,
        payerId: rows.bob.id,
        projectId,
        total: '9999999999999999.99',
      })
      rows.second = await create('/invoices', { reference: 'B', customerId })
      rows.line = await create('/line-items', { invoiceId: rows.first.id, text: 'T', amount: 1 })
      rows.remark = await create('/remarks', { lineId: rows.line.id, text: 'R' })
    })
    const read = async (url: string) => {
      const answer = await send({ url })
      assert.equal(answer.statusCode, 200, answer.body)
      return answer.json()
    }
    /** Returns a row as it appears in lists. */
    const listed = ({ notes: _, ...row }: Resource) => row

    it('200 with the referenced row, or null if there is no reference', async () => {
      const first = await read(`/invoices/${rows.first.id}?expand=customer,payer`)
      assert.deepEqual(first, { ...rows.first, customer: listed(rows.ada), payer: listed(rows.bob) })
      const second = await read(`/invoices/${rows.second.id}?expand=payer`)
      assert.deepEqual(second, { ...rows.second, payer: null })
    })

    it('200 with the rows that refer to a row, and with related rows up to three relations away', async () => {
      assert.deepEqual(await read(`/invoices/${rows.first.id}?expand=lineItems`), {
        ...rows.first,
        lineItems: [rows.line],
      })
      assert.deepEqual((await read(`/invoices/${rows.second.id}?expand=lineItems`)).lineItems, [])
      const remark = await read(`/remarks/${rows.remark.id}?expand=line.invoice.customer,line.invoice.payer`)
      const invoice = { ...rows.first, customer: listed(rows.ada), payer: listed(rows.bob) }
      assert.deepEqual(remark, { ...rows.remark, line: { ...rows.line, invoice } })
    })

    it('200 for lists in every version, with paging and `fields`, and for nested lists', async () => {
      const listOf = await read('/invoices?expand=customer&sort=reference&limit=1')
      assert.deepEqual(listOf, [{ ...rows.first, customer: listed(rows.ada) }])
      const enclosed = await read('/v2/invoices?expand=customer&limit=1')
      assert.deepEqual(enclosed.items, listOf)
      assert.match(enclosed.next, /expand=customer/)
      assert.deepEqual((await read(enclosed.next)).items[0], { ...rows.second, customer: listed(rows.ada) })
      assert.deepEqual(
        await read('/invoices?expand=customer,lineItems&fields=reference,customer.name,lineItems.text'),
        [
          { reference: 'A', customer: { name: 'Ada' }, lineItems: [{ text: 'T' }] },
          { reference: 'B', customer: { name: 'Ada' } },
        ],
      )
      const nested = await read(`/invoices/${rows.first.id}/line-items?expand=invoice`)
      assert.deepEqual(nested, [{ ...rows.line, invoice: rows.first }])
      const single = await read(`/invoices/${rows.first.id}?expand=customer&fields=customer.name`)
      assert.deepEqual(single, { customer: { name: 'Ada' } })
    })

    it('200 when following a self-reference', async () => {
      const child = await create('/projects', { name: 'Child', parentId: rows.root.id })
      const { projects, parent } = await read(`/projects/${rows.root.id}?expand=projects.parent,parent`)
      assert.deepEqual([projects, parent], [[{ ...child, parent: rows.root }], null])
    })

    it('200 without the hidden fields of a related row, even for a caller who may see them', async () => {
      const full = 'invoices:read customers:read customers:read:full'
      const { notes } = (await send({ url: `/customers/${rows.ada.id}`, scopes: full })).json()
      const { customer } = (await send({ url: `/invoices/${rows.first.id}?expand=customer`, scopes: full })).json()
      assert.deepEqual([notes, customer.notes], ['secret', undefined])
    })

    it('200 with a weak tag that changes with the related row; 412 if it is sent as If-Match', async () => {
      const url = `/invoices/${rows.first.id}`
      const first = await send({ url: `${url}?expand=payer` })
      const etag = String(first.headers.etag)
      assert.match(etag, /^W\/"/)
      assert.equal(first.headers['last-modified'], undefined)
      const again = await send({ url: `${url}?expand=payer`, headers: { 'if-none-match': etag } })
      assert.equal(again.statusCode, 304)
      assert.equal((await send({ url: `${url}?expand=payer`, headers: { 'if-match': etag } })).statusCode, 412)
      for (const method of ['PATCH', 'DELETE'] as const) {
        const payload = method === 'PATCH' ? { payload: { reference: 'X' } } : {}
        assert.equal((await send({ method, url, headers: { 'if-match': etag }, ...payload })).statusCode, 412)
      }
      const name = `Bob ${engine.name}`
      await send({ method: 'PATCH', url: `/customers/${rows.bob.id}`, payload: { name } })
      const changed = await send({ url: `${url}?expand=payer`, headers: { 'if-none-match': etag } })
      assert.deepEqual([changed.statusCode, changed.json().payer.name], [200, name])
      const plain = await send({ url })
      assert.deepEqual([plain.headers.etag, plain.json()], ['"1"', rows.first])
    })

    it('200 with the current related rows in a list, even if the listed rows have not changed', async () => {
      const names = async () => (await read('/invoices?expand=customer&limit=1'))[0].customer.name
      assert.equal(await names(), 'Ada')
      await send({ method: 'PATCH', url: `/customers/${rows.ada.id}`, payload: { name: 'Ada L.' } })
      assert.equal(await names(), 'Ada L.')
      await send({ method: 'PATCH', url: `/customers/${rows.ada.id}`, payload: { name: 'Ada' } })
      assert.deepEqual(await read('/invoices?limit=1'), [rows.first])
    })

    const refused: [url: string, message: string | RegExp][] = [
      [
        '/invoices?expand=customers',
        "names 'customers', which is no relation of /invoices: use one of customer, payer, project, lineItems",
      ],
      ['/invoices/1?expand=lineItems.nothing', /no relation of \/line-items: use one of invoice, remarks$/],
      ['/invoices?expand=customer.x', /no relation of \/customers: it has none$/],
      ['/remarks?expand=line.invoice.customer.x', 'must have at most 3 steps in each name'],
      [`/invoices?expand=${Array(11).fill('customer').join()}`, 'must have at most 10 names'],
      ['/invoices?expand=__proto__', /^names '__proto__'/],
      ['/invoices?expand=customer..', /^names ''|at most 3 steps/],
    ]
    for (const [url, message] of refused) {
      it(`400 for ${url.slice(0, 60)}`, async () => {
        const answer = await send({ url })
        const [error] = answer.json().errors
        assert.deepEqual([answer.statusCode, error.field], [400, 'expand'], answer.body)
        assert.match(error.message, typeof message === 'string' ? new RegExp(`^${message}$`) : message)
      })
    }

    it('400 for a repeated parameter and for resources without relations', async () => {
      assert.equal((await send({ url: '/invoices?expand=customer&expand=payer' })).statusCode, 400)
      const answer = await send({ url: '/customers?expand=invoices' })
      assert.deepEqual([answer.statusCode, answer.json().errors[0].field], [400, 'expand'])
    })

    it('403 if the read scope of an expanded collection is missing', async () => {
      for (const [url, missing] of [
        ['/invoices?expand=customer', 'customers:read'],
        ['/invoices/1?expand=lineItems', 'line-items:read'],
        ['/line-items?expand=invoice.customer', 'customers:read'],
      ] as const) {
        const only = scopes.split(' ').filter((scope) => scope !== missing)
        const answer = await send({ url, scopes: only.join(' ') })
        assert.equal(answer.statusCode, 403, answer.body)
        assert.match(String(answer.headers['www-authenticate']), new RegExp(`scope="${missing}"`))
      }
    })

    it('404 for a missing row', async () => {
      assert.equal((await send({ url: '/invoices/999999?expand=customer' })).statusCode, 404)
    })

    it('200 with 1,000 related rows, 400 with 1,001', async () => {
      const { id } = await create('/invoices', { reference: 'L', customerId: rows.ada.id })
      await service.db.write((tx) =>
        sql`insert into resource_line_items (invoice_id, text, amount, revision, created_at, updated_at)
          with recursive n (n) as (select 1 union all select n + 1 from n where n < 1000)
          select cast(${id} as integer), 'x', n, 1, '2026', '2026' from n`.execute(tx),
      )
      const url = `/invoices/${id}?expand=lineItems`
      assert.equal((await read(url)).lineItems.length, 1_000)
      await create('/line-items', { invoiceId: id, text: 'T', amount: 1_001 })
      const answer = await send({ url })
      assert.deepEqual([answer.statusCode, answer.json().errors[0].field], [400, 'expand'])
      assert.match(answer.json().errors[0].message, /^adds more than 1000 rows: use a smaller limit/)
    })

    it('reads each relation with a single statement, regardless of the limit', async () => {
      let reads = 0
      const prepare: Database['prepare'] = (query) => {
        const prepared = service.db.prepare(query)
        const all: typeof prepared.all = (values) => {
          reads += 1
          return prepared.all(values)
        }
        return { ...prepared, all: all as never }
      }
      const counting = await testApp({ ...service.db, prepare }, { definition })
      for (const limit of [1, 50]) {
        reads = 0
        const url = `/invoices?limit=${limit}&expand=customer,lineItems.remarks&reference=A`
        assert.equal((await counting.send({ url, scopes })).statusCode, 200)
        assert.equal(reads, 4)
      }
      await counting.app.close()
      assert.deepEqual(counting.faults, [])
    })

    it('is rejected with 400 in a POST, and adds no members to event schemas', async () => {
      const payload = { reference: 'P', customerId: rows.ada.id }
      const refused = await send({ method: 'POST', url: '/invoices?expand=customer', payload })
      assert.deepEqual([refused.statusCode, refused.json().errors[0].field], [400, 'expand'])
      assert.deepEqual((await send({ url: '/invoices?reference=P' })).json(), [])
      const document = (await send({ url: '/openapi.json' })).json()
      const event = JSON.stringify(
        document.webhooks['invoice.created'].post.requestBody.content['application/json'].schema,
      )
      const names = [...event.matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => String(name))
      const whole = event + names.map((name) => JSON.stringify(document.components.schemas[name])).join('')
      assert.ok(whole.includes('"customerId"'), whole)
      for (const member of ['customer', 'payer', 'project', 'lineItems'])
        assert.ok(!whole.includes(`"${member}"`), whole)
    })

    it('is in OpenAPI as a parameter that adds optional members', async () => {
      const { paths, components } = (await send({ url: '/openapi.json' })).json()
      const names = (path: string) =>
        paths[path].get.parameters.map(
          ({ name, $ref }: { name?: string; $ref?: string }) => name ?? $ref?.split('/').at(-1),
        )
      for (const path of ['/invoices', '/invoices/{id}', '/projects/{id}/projects'])
        assert.ok(names(path).some((name: string) => /expand/i.test(name)))
      assert.ok(!names('/customers').some((name: string) => /expand/i.test(name)))
      const { properties, required } = components.schemas.Invoice
      assert.deepEqual(Object.keys(properties).slice(-4), ['customer', 'payer', 'project', 'lineItems'])
      assert.ok(!required.includes('customer'))
      assert.ok(!JSON.stringify(properties.customer).includes('notes'))
      assert.ok(!JSON.stringify(components.schemas.InvoiceCreate).includes('lineItems'))
    })
  })
})
