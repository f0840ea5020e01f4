import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { appOn, type TestApp, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { definition, scopes } from './service.ts'

forEachEngine((engine) => {
  describe('filters by fields of related rows', () => {
    const app = appOn(engine, { definition })
    const as = (who: string, request: Parameters<TestApp['send']>[0]) =>
      app.send({ token: token(scopes, who), ...request })
    const create = async (who: string, url: string, payload: object): Promise<number> => {
      const created = await as(who, { method: 'POST', url, payload })
      assert.equal(created.statusCode, 201, created.body)
      return created.json().id
    }
    const customers = {} as Record<'ada' | 'bob' | 'south', number>
    const invoices = {} as Record<'ada' | 'bob' | 'paid' | 'south', number>
    before(async () => {
      const customer = (tenant: string, more: object) => create(`crm_${tenant}`, '/customers', { tenant, ...more })
      customers.ada = await customer('north', { name: 'Ada', level: 'low', credit: '10.50', since: '2026-01-01' })
      customers.bob = await customer('north', { name: 'Bob', phone: '1', level: 'high', credit: '99.00' })
      customers.south = await customer('south', { name: 'Ada', phone: '2', level: 'low', credit: '10.50' })
      const invoice = (tenant: string, customerId: number, more: object = {}) =>
        create(`crm_${tenant}`, '/invoices', { customerId, status: 'draft', ...more })
      invoices.ada = await invoice('north', customers.ada)
      invoices.bob = await invoice('north', customers.bob)
      invoices.paid = await invoice('north', customers.bob, { payerId: customers.ada })
      invoices.south = await invoice('south', customers.south)
    })
    const named = (ids: number[]) => ids.map((id) => Object.entries(invoices).find(([, known]) => known === id)?.[0])
    const found = async (who: string, query: string) => {
      const listed = await as(who, { url: `/invoices?${query}`, headers: { prefer: 'count=exact' } })
      assert.equal(listed.statusCode, 200, `${query}: ${listed.body}`)
      const ids = listed.json().map(({ id }: { id: number }) => id)
      assert.equal(listed.headers['x-total-count'], String(ids.length))
      return named(ids)
    }

    it('200 with the rows whose related row matches, for every operator, and inside `or`', async () => {
      for (const [query, expected] of [
        ['customer.name=ada', ['ada']],
        ['customer.name=Nobody', []],
        ['customer.name[prefix]=b', ['bob', 'paid']],
        ['customer.name[not]=Ada', ['bob', 'paid']],
        ['customer.name[in]=Ada,Bob', ['ada', 'bob', 'paid']],
        ['customer.phone[null]=true', ['ada']],
        ['customer.phone[null]=false', ['bob', 'paid']],
        ['customer.level=low,high', ['ada', 'bob', 'paid']],
        ['customer.level=high', ['bob', 'paid']],
        ['customer.credit[from]=50', ['bob', 'paid']],
        ['customer.credit=10.5', ['ada']],
        ['customer.since[before]=2026-02-01', ['ada']],
        ['payer.name=Ada', ['paid']],
        ['payer.name[not]=Nobody', ['paid']],
        ['payer.phone[null]=true', ['paid']],
        ['customer.name=Bob&payer.name=Ada', ['paid']],
        ['customer.name=Bob&customer.level=low', []],
        ['customer.name=Bob&status=draft&sort=-id', ['paid', 'bob']],
        [`customer.name=Bob&customerId=${customers.bob}&or=status:draft`, ['bob', 'paid']],
        ['or=customer.name:ADA', ['ada']],
        ['or=customer.name:"Ada",status:sent', ['ada']],
        ['or=customer.name[prefix]:a,payer.phone[null]:true', ['ada', 'paid']],
        ['or=payer.name[not]:Nobody,payer.level[null]:true', ['paid']],
        ['or=customer.credit[from]:50,customer.since[before]:2026-02-01&payer.name=Ada', ['paid']],
      ] as const) {
        assert.deepEqual(await found('crm_north', query), expected, query)
      }
    })

    it('omit rows whose related row the caller cannot read, even with [not] and in `or`', async () => {
      assert.deepEqual(await found('auditor', 'customer.name=Ada'), ['ada', 'south'])
      assert.deepEqual(await found('crm_north', 'customer.name=Ada'), ['ada'])
      assert.deepEqual(await found('crm_south', 'customer.name[in]=Ada,Bob'), ['south'])
      // Payments have no rules, so everyone can read them, but not all of the invoices to which they refer.
      const payments: unknown[] = []
      for (const invoiceId of [invoices.ada, invoices.south]) {
        payments.push(await create('auditor', '/payments', { invoiceId, amount: '1.00' }))
      }
      const seen = async (who: string, query: string) => {
        const listed = await as(who, { url: `/payments?limit=200&${query}` })
        assert.equal(listed.statusCode, 200, listed.body)
        return listed.json().map(({ id }: { id: number }) => payments.indexOf(id))
      }
      for (let round = 0; round < 2; round++) {
        for (const query of [
          ...['invoice.status=draft', 'invoice.status[not]=sent', 'invoice.status[in]=draft,sent'],
          ...[
            'or=invoice.status:draft',
            'or=invoice.status[not]:sent,invoice.status:sent',
            'invoice.status=draft&sort=invoice.id',
          ],
        ]) {
          assert.deepEqual(await seen('auditor', query), [0, 1], query)
          assert.deepEqual(await seen('crm_north', query), [0], query)
          assert.deepEqual(await seen('crm_south', query), [1], query)
          assert.deepEqual(await seen('nobody', query), [], query)
        }
        assert.deepEqual(await seen('nobody', ''), [0, 1])
        assert.deepEqual(await seen('crm_north', 'invoice.status[not]=draft'), [])
      }
    })

    it('200 with only matching rows on every page; 400 for a cursor from another query', async () => {
      const first = await as('crm_north', { url: '/v2/invoices?customer.name=Bob&limit=1' })
      const { items, next } = first.json()
      assert.deepEqual(named(items.map(({ id }: { id: number }) => id)), ['bob'])
      const second = (await as('crm_north', { url: next })).json()
      assert.deepEqual(named(second.items.map(({ id }: { id: number }) => id)), ['paid'])
      assert.equal(second.next, null)
      const cursor = new URL(next, 'https://plinth.test').searchParams.get('cursor')
      const other = await as('crm_north', { url: `/v2/invoices?customer.name=Ada&limit=1&cursor=${cursor}` })
      assert.equal(other.statusCode, 400)
    })

    it('200 in a nested list, 404 if the caller cannot read the row in its path', async () => {
      const url = `/invoices/${invoices.ada}/payments?invoice.status=draft`
      assert.equal((await as('crm_north', { url })).json().length, 1)
      assert.equal(
        (await as('crm_north', { url: `${url}&sort=-invoice.status&or=invoice.status:draft` })).json().length,
        1,
      )
      assert.equal((await as('crm_south', { url })).statusCode, 404)
    })

    it('400 for unknown names and invalid values, listing the allowed ones', async () => {
      const messageOf = async (query: string) => {
        const refused = await as('crm_north', { url: `/invoices?${query}` })
        assert.equal(refused.statusCode, 400, `${query}: ${refused.body}`)
        return refused.json().errors[0].message as string
      }
      assert.equal(await messageOf('customer.nam=Ada'), 'is not a parameter: did you mean customer.name?')
      assert.match(await messageOf('customer.tenant=north'), /^is not a parameter: /)
      assert.match(await messageOf('customer.customer.name=north'), /^is not a parameter: /)
      assert.equal(
        await messageOf('customer.credit[from]=much'),
        'must be a decimal number such as "12.50", not "much"',
      )
      assert.match(await messageOf('customer.level[in]=low,none'), /must be one of low, high/)
      assert.match(await messageOf('customer.since=yesterday'), /must be a day/)
      assert.match(await messageOf('customer.phone[null]=maybe'), /must be true or false/)
      assert.match(await messageOf(`customer.name=${'x'.repeat(301)}`), /at most 300 characters/)
      assert.match(await messageOf(`customer.name[in]=${'x,'.repeat(51)}`), /at most 50 values/)
      for (const name of [
        'customer.nam',
        'customer.tenant',
        'client.name',
        'customer.customer.name',
        'customer.name[in]',
      ]) {
        const message = await messageOf(`or=${name}:Ada`)
        assert.ok(message.startsWith(`does not support '${name}'; use status, `), message)
        assert.match(message, / customer\.name, .* customer\.name\[prefix\], .* payer\.name, /)
      }
      assert.match(await messageOf('or=customer.level:none'), /must be one of low, high/)
      assert.match(await messageOf('or=customer.name:Ada,status'), /must be field:value .* not 'status'/)
      const eleven = Array(11).fill('customer.name:Ada').join()
      assert.equal(await messageOf(`or=${eleven}`), 'must have at most 10 alternatives')
    })

    it('403 without the scope of the related collection, 401 without a token', async () => {
      const url = '/payments?invoice.status=draft'
      assert.equal((await app.send({ url, scopes: 'payments:read' })).statusCode, 403)
      assert.equal((await app.send({ url, scopes: null })).statusCode, 401)
      assert.equal((await app.send({ url, scopes: 'payments:read invoices:read' })).statusCode, 200)
    })

    it('are documented in OpenAPI', async () => {
      const document = (await app.send({ url: '/openapi.json', scopes: null })).json()
      interface Parameter {
        $ref?: string
        name: string
        description: string
        schema: { pattern: string }
      }
      const listed: Parameter[] = document.paths['/invoices'].get.parameters
      const parameters = listed.map((one) =>
        one.$ref ? document.components.parameters[one.$ref.split('/')[3] ?? ''] : one,
      )
      const of = (name: string) => parameters.find((parameter) => parameter.name === name)?.description
      assert.equal(of('customer.name'), 'Only items with this customer.name')
      assert.match(of('customer.credit[from]') ?? '', /customer\.credit is this or more/)
      assert.equal(of('payer.name[prefix]'), 'Only items whose payer.name begins with this')
      assert.equal(of('customer.tenant'), undefined)
      assert.ok(document.components.parameters.CustomerName)
      const or = parameters.find(({ name }) => name === 'or')
      const accepts = new RegExp(or?.schema.pattern ?? '')
      assert.ok(accepts.test('customer.name[prefix]:A,customer.credit:12.50') && !accepts.test('customer.tenant:north'))
    })
  })
})
