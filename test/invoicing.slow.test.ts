import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import definition from '../examples/invoicing/service.ts'
import { addUser, openAccount } from '../src/oauth/users/accounts.ts'
import { appOn, type TestApp, token } from './support/app.ts'
import { forEachEngine } from './support/engines.ts'
import { reportFile } from './support/report-files.ts'

const scopes = ['customers', 'invoices', 'lines'].flatMap((name) => [`${name}:read`, `${name}:write`]).join(' ')
const mergePatch = { 'content-type': 'application/merge-patch+json' }

forEachEngine((engine) => {
  describe('examples/invoicing', () => {
    const app = appOn(engine, { definition })
    const ids = {} as Record<'ada' | 'eve' | 'auditor', number>
    const admin = (method: 'PATCH', url: string, payload: object) =>
      app.send({ method, url, payload, headers: mergePatch, scopes: 'users:write users:read:full admin' })
    const newUser = async (name: string, fields: object) => {
      const id = await app.db.write(async (tx) => {
        const added = await addUser(tx, name, `${name}@example.com`, app.clock.now)
        await openAccount(tx, added, 'user', app.clock.now)
        return added
      })
      const response = await admin('PATCH', `/users/${id}`, fields)
      assert.equal(response.statusCode, 200, response.body)
      return id
    }
    before(async () => {
      ids.ada = await newUser('ada', { tenant: 'north', role: 'member' })
      ids.eve = await newUser('eve', { tenant: 'south', role: 'member' })
      ids.auditor = await newUser('auditor', { role: 'auditor' })
    })
    type Who = keyof typeof ids
    const as = (who: Who, request: Parameters<TestApp['send']>[0]) =>
      app.send({ ...request, token: token(scopes, 'cli_app', String(ids[who])) })
    const create = async (who: Who, url: string, payload: object) => {
      const response = await as(who, { method: 'POST', url, payload })
      assert.equal(response.statusCode, 201, response.body)
      return response.json()
    }
    const read = async (who: Who, url: string) => {
      const response = await as(who, { url })
      assert.equal(response.statusCode, 200, response.body)
      return response.json()
    }
    const patch = (who: Who, url: string, payload: object) =>
      as(who, { method: 'PATCH', url, payload, headers: mergePatch })
    const invoice = async (who: Who, more: object = {}) => {
      const email = `${who}${Math.random()}@example.com`
      const { id: customerId } = await create(who, '/v2/customers', { name: 'Ada', email })
      return create(who, '/v2/invoices', { customerId, due: '2026-02-28', currency: 'EUR', ...more })
    }

    it('201 with the next gap-free reference, the caller’s tenant and the sum of the lines as the total', async () => {
      const made = await invoice('ada')
      assert.deepEqual(
        [made.status, made.total, made.overdue, made.createdBy],
        ['draft', '0.00', false, `user:${ids.ada}`],
      )
      assert.match(made.reference, /^R-\d+$/)
      const next = await invoice('eve')
      assert.equal(Number(next.reference.slice(2)), Number(made.reference.slice(2)) + 1)
      await create('ada', '/v2/lines', { invoiceId: made.id, text: 'Work', amount: '100.10' })
      await create('ada', '/v2/lines', { invoiceId: made.id, text: 'Travel', amount: '0.20' })
      const shown = await read('ada', `/v2/invoices/${made.id}?expand=customer,lines`)
      assert.deepEqual([shown.total, shown.customer.tenant, shown.lines.length], ['100.30', 'north', 2])
    })

    it('201 with gap-free references for 100 concurrent invoices, even if 10 other concurrent requests get a 422', async () => {
      const { customerId, reference } = await invoice('ada')
      const first = Number(reference.slice(2)) + 1
      const payload = { customerId, due: '2026-02-28', currency: 'EUR' }
      // On a busy machine, the wait for the counter can time out. The client gets a 503 and repeats the request.
      const post = async (one: object): ReturnType<typeof as> => {
        const response = await as('ada', { method: 'POST', url: '/v2/invoices', payload: { ...payload, ...one } })
        return response.statusCode === 503 ? post(one) : response
      }
      const refused = { customerId: 999_999 }
      const all = await Promise.all(Array.from({ length: 110 }, (_, n) => post(n % 11 === 0 ? refused : {})))
      const made = all.filter(({ statusCode }) => statusCode === 201).map((one) => one.json().reference)
      assert.deepEqual(new Set(all.map(({ statusCode }) => statusCode)), new Set([201, 422]))
      // Every 503 must have been caused by a lock timeout.
      for (const fault of app.faults.splice(0)) assert.equal((fault as { code?: string }).code, '55P03', String(fault))
      const numbers = made.map((one: string) => Number(one.slice(2))).toSorted((a, b) => a - b)
      assert.deepEqual(
        numbers,
        Array.from({ length: 100 }, (_, n) => first + n),
      )
    })

    it("404 for another tenant's rows; an auditor can read invoices, but cannot change them or read customers", async () => {
      const { id, customerId } = await invoice('ada')
      const { id: lineId } = await create('ada', '/v2/lines', { invoiceId: id, text: 'Work', amount: '1.00' })
      for (const url of [`/v2/customers/${customerId}`, `/v2/invoices/${id}`, `/v2/lines/${lineId}`]) {
        assert.equal((await as('eve', { url })).statusCode, 404)
        assert.equal((await patch('eve', url, {})).statusCode, 404)
        assert.equal((await as('eve', { method: 'DELETE', url })).statusCode, 404)
      }
      assert.equal((await as('eve', { url: `/v2/customers/${customerId}/invoices` })).statusCode, 404)
      const stolen = { customerId, due: '2026-01-01', currency: 'EUR' }
      assert.equal((await as('eve', { method: 'POST', url: '/v2/invoices', payload: stolen })).statusCode, 422)
      assert.equal((await as('auditor', { url: `/v2/invoices/${id}` })).statusCode, 200)
      assert.equal((await patch('auditor', `/v2/invoices/${id}`, { status: 'sent' })).statusCode, 403)
      assert.equal((await as('auditor', { url: `/v2/customers/${customerId}` })).statusCode, 404)
    })

    it("200 with only the rows of the caller's tenant, filtered by a related field, expanded and sorted by a sum", async () => {
      const [small, large] = [await invoice('ada'), await invoice('ada')]
      await create('ada', '/v2/lines', { invoiceId: small.id, text: 'Work', amount: '900.00' })
      await create('ada', '/v2/lines', { invoiceId: large.id, text: 'Work', amount: '10000.00' })
      await invoice('eve')
      const query = 'status=draft,sent&customer.name=Ada&expand=customer&sort=-total&limit=200'
      const { items } = await read('ada', `/v2/invoices?${query}`)
      assert.deepEqual([items[0].id, items[0].total, items[1].id], [large.id, '10000.00', small.id])
      assert.deepEqual(
        new Set(items.map(({ customer }: { customer: { tenant: string } }) => customer.tenant)),
        new Set(['north']),
      )
      const over = await read('ada', '/v2/invoices?total[from]=1000.00')
      assert.deepEqual(
        over.items.map(({ id }: { id: number }) => id),
        [large.id],
      )
    })

    it('409 for deleting a customer with invoices, and for changing a paid invoice or its lines', async () => {
      const { id, customerId } = await invoice('ada')
      const { id: lineId } = await create('ada', '/v2/lines', { invoiceId: id, text: 'Work', amount: '1.00' })
      const inUse = await as('ada', { method: 'DELETE', url: `/v2/customers/${customerId}` })
      assert.deepEqual([inUse.statusCode, inUse.json().errorCode], [409, 'RESOURCE_IN_USE'])
      assert.match(inUse.json().detail, /1 invoices/)
      assert.equal((await patch('ada', `/v2/invoices/${id}`, { status: 'paid' })).statusCode, 200)
      for (const [url, payload] of [
        [`/v2/invoices/${id}`, { status: 'draft' }],
        [`/v2/lines/${lineId}`, { amount: '2.00' }],
      ] as const) {
        const refused = await patch('ada', url, payload)
        assert.deepEqual([refused.statusCode, refused.json().errorCode], [409, 'RESOURCE_LOCKED'])
      }
      const added = { invoiceId: id, text: 'More', amount: '1.00' }
      assert.equal((await as('ada', { method: 'POST', url: '/v2/lines', payload: added })).statusCode, 409)
      assert.equal((await read('ada', `/v2/invoices/${id}`)).total, '1.00')
    })

    it('200 for v1 requests with the v1 field names; a v1 PUT does not change the fields that v1 hides', async () => {
      const { id, reference, customerId } = await invoice('ada', { currency: 'USD' })
      const shown = await as('ada', { url: `/v1/invoices/${id}` })
      const { number, currency, reference: none } = shown.json()
      assert.deepEqual([number, currency, none], [reference, undefined, undefined])
      const payload = { number: 'N-1', customerId, status: 'sent', due: '2026-03-01' }
      const headers = { 'if-match': String(shown.headers.etag) }
      const put = await as('ada', { method: 'PUT', url: `/v1/invoices/${id}`, payload, headers })
      assert.deepEqual([put.statusCode, put.json().number], [200, 'N-1'], put.body)
      const newer = await read('ada', `/v2/invoices/${id}`)
      assert.deepEqual([newer.reference, newer.currency], ['N-1', 'USD'])
      assert.deepEqual(
        (await read('ada', '/v1/invoices?number=N-1')).map((one: { id: number }) => one.id),
        [id],
      )
      const again = await as('ada', { method: 'PUT', url: `/v1/invoices/${id}`, payload, headers })
      assert.equal(again.statusCode, 412)
      const made = await create('ada', '/v1/invoices', { customerId, due: '2026-03-01' })
      assert.equal((await read('ada', `/v2/invoices/${made.id}`)).currency, 'EUR')
      assert.equal((await as('eve', { url: `/v1/invoices/${id}` })).statusCode, 404)
    })

    it('reports the revenue of the paid invoices that each caller can read', async () => {
      for (const [who, amount] of [
        ['ada', '12.50'],
        ['eve', '40.00'],
      ] as const) {
        const { id } = await invoice(who, { due: '2026-05-10' })
        await create(who, '/v2/lines', { invoiceId: id, text: 'Work', amount })
        assert.equal((await patch(who, `/v2/invoices/${id}`, { status: 'paid' })).statusCode, 200)
      }
      const reportScopes = `${scopes} reports:read reports:write`
      const revenue = async (who: Who) => {
        const bearer = token(reportScopes, 'cli_app', String(ids[who]))
        const period = { from: '2026-05-01', to: '2026-05-31' }
        const at = { service: app, definition, scopes: reportScopes }
        return JSON.parse(String(await reportFile(at, 'revenue', period, { token: bearer })))
      }
      const may = { month: '2026-05', currency: 'EUR' }
      assert.deepEqual(await revenue('ada'), [{ ...may, total: '12.50' }])
      assert.deepEqual(await revenue('eve'), [{ ...may, total: '40.00' }])
      assert.deepEqual(await revenue('auditor'), [{ ...may, total: '52.50' }])
    })

    it('200 for sending an invoice with a total, 422 without one, 409 once it is sent', async () => {
      const { id } = await invoice('ada')
      const webhook = { event: 'invoice.sent', callbackUrl: 'http://127.0.0.1:9/' }
      const registered = token(`${scopes} webhooks:write`, 'cli_app', String(ids.ada))
      const registration = await app.send({ method: 'POST', url: '/api/webhooks', payload: webhook, token: registered })
      assert.equal(registration.statusCode, 201, registration.body)
      const send = () => as('ada', { method: 'POST', url: `/v2/invoices/${id}/send`, payload: {} })
      const refused = await send()
      assert.deepEqual([refused.statusCode, refused.json().errors[0].field], [422, 'total'])
      await create('ada', '/v2/lines', { invoiceId: id, text: 'Work', amount: '1.00' })
      const answer = await send()
      assert.deepEqual([answer.statusCode, answer.json().status], [200, 'sent'], answer.body)
      assert.equal((await send()).statusCode, 409)
      const jobs = await app.db.read
        .selectFrom('declaredJobs')
        .selectAll()
        .where('name', '=', 'invoice.remind')
        .execute()
      const due = new Date(app.clock.now + 14 * 86_400_000).toISOString()
      assert.deepEqual(
        jobs.map(({ input, status, dueAt }) => [JSON.parse(input), status, dueAt]),
        [[{ id }, 'waiting', due]],
      )
      const events = await app.db.read.selectFrom('events').select('body').where('type', '=', 'invoice.sent').execute()
      assert.deepEqual(
        events.map(({ body }) => JSON.parse(body)),
        [{ reference: answer.json().reference }],
      )
      assert.equal((await as('eve', { method: 'POST', url: `/v2/invoices/${id}/send`, payload: {} })).statusCode, 404)
    })

    it('422 for a fourth invoice of a customer with three overdue ones', async () => {
      const { customerId } = await invoice('ada', { due: '2026-01-01', status: 'sent' })
      const more = { customerId, due: '2026-01-01', currency: 'EUR', status: 'sent' }
      for (let count = 1; count < 3; count++) await create('ada', '/v2/invoices', more)
      const refused = await as('ada', { method: 'POST', url: '/v2/invoices', payload: more })
      assert.deepEqual([refused.statusCode, refused.json().errors[0].field], [422, 'customerId'])
    })

    it('lists an invoice as overdue from the day after it is due', async () => {
      const { id } = await invoice('ada', { due: '2026-03-01', status: 'sent' })
      const overdue = async () =>
        (await read('ada', '/v2/invoices?overdue=true&limit=200')).items.map((one: { id: number }) => one.id)
      assert.ok(!(await overdue()).includes(id))
      app.clock.now += 86_400_000
      assert.ok((await overdue()).includes(id))
      assert.equal((await read('ada', `/v2/invoices/${id}`)).overdue, true)
      app.clock.now -= 86_400_000
    })
  })
})
