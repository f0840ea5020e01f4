import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { appOn, type TestApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { definition, scopes } from './service.ts'

type Members = Record<string, unknown>

forEachEngine((engine) => {
  describe('a view of a resource', () => {
    const service = appOn(engine, { definition })
    const send: TestApp['send'] = (request) => service.send({ scopes, ...request })
    let clientId = 0
    let made = 0
    before(async () => {
      clientId = (await send({ method: 'POST', url: '/v2/customers', payload: { name: 'Ada' } })).json().id
    })
    const fresh = (more: Members = {}) => ({
      ...{ number: `N-${++made}`, clientId, issuedOn: '2026-03-01', amount: `${made}.50` },
      ...more,
    })
    const post = (payload: Members, url = '/v1/invoices') => send({ method: 'POST', url, payload })
    const create = async (more: Members = {}): Promise<Members & { id: number }> => {
      const created = await post(fresh(more))
      assert.equal(created.statusCode, 201, created.body)
      return created.json()
    }
    const get = (url: string, headers: Record<string, string> = {}) => send({ url, headers })
    const change = (method: 'PUT' | 'PATCH', url: string, payload: object, headers: Record<string, string> = {}) =>
      send({ method, url, payload, headers })
    const numbers = async (query: string): Promise<unknown[]> => {
      const answer = await get(`/v1/invoices?${query}`)
      assert.equal(answer.statusCode, 200, answer.body)
      return answer.json().map(({ number }: Members) => number)
    }
    const wrong = async (url: string): Promise<string> => {
      const answer = await get(url)
      assert.equal(answer.statusCode, 400, answer.body)
      return answer.body
    }

    it('201 with the view’s field names, and defaults in hidden fields; both versions show the same row', async () => {
      const created = await post(fresh({ payBy: '2026-04-01', note: 'soon', place: { city: 'Bonn' } }))
      assert.equal(created.statusCode, 201, created.body)
      const { id, createdAt, updatedAt, _links, ...shown } = created.json()
      assert.deepEqual(shown, {
        ...{ number: `N-${made}`, clientId, status: 'draft', issuedOn: '2026-03-01', payBy: '2026-04-01' },
        ...{ amount: `${made}.50`, note: 'soon', place: { city: 'Bonn' } },
      })
      assert.equal(created.headers.location, `/v1/invoices/${id}`)
      assert.equal(_links.print.href, `/v1/print/N-${made}/EUR`)
      const newest = (await get(`/v2/invoices/${id}`)).json()
      const { _links: __, ...own } = newest
      assert.deepEqual(own, {
        ...{
          id,
          reference: `N-${made}`,
          customerId: clientId,
          status: 'draft',
          issued: '2026-03-01',
          due: '2026-04-01',
        },
        ...{ total: `${made}.50`, amount: 0, currency: 'EUR', origin: 'v1 2026', remark: 'soon' },
        ...{ address: { city: 'Bonn' }, createdAt, updatedAt },
      })
      assert.deepEqual((await get(`/v1/invoices/${id}`)).json(), created.json())
      // The paths without a prefix belong to v1.
      assert.equal((await get(`/invoices/${id}`)).json().number, `N-${made}`)
      assert.equal((await get(`/v1/invoices/${id}`)).json().number, `N-${made}`)
    })

    it('ignores the field names of other versions in bodies, or refuses them under strict handling', async () => {
      const more = { currency: 'USD', origin: 'x', reference: 'R-0', amountHidden: 7, totalHidden: 1, pin: '1234' }
      const { id } = await create(more)
      const own = (await get(`/v2/invoices/${id}`)).json()
      assert.deepEqual([own.currency, own.origin, own.reference, own.amount], ['EUR', 'v1 2026', `N-${made}`, 0])
      const patched = await change('PATCH', `/v1/invoices/${id}`, { ...more, note: 'kept' })
      assert.deepEqual([patched.statusCode, patched.json().note], [200, 'kept'])
      const after = (await get(`/v2/invoices/${id}`)).json()
      assert.deepEqual(
        [after.currency, after.origin, after.reference, after.amount],
        ['EUR', 'v1 2026', `N-${made}`, 0],
      )
      const strict = { prefer: 'handling=strict' }
      for (const name of ['currency', 'reference', 'amountHidden', 'total']) {
        const refused = await change('PATCH', `/v1/invoices/${id}`, { [name]: 'EUR' }, strict)
        assert.equal(refused.statusCode, 400, refused.body)
        assert.match(refused.body, new RegExp(`"${name}"`))
      }
    })

    it('keeps the values of hidden fields in PUT and PATCH', async () => {
      const own = { reference: 'K-1', customerId: clientId, issued: '2026-03-01', total: '7.00', amount: 9 }
      const payload = { ...own, currency: 'USD', origin: 'app', status: 'sent', pin: '1', remark: 'old' }
      const { id } = (await send({ method: 'POST', url: '/v2/invoices', payload })).json()
      const put = await change('PUT', `/v1/invoices/${id}`, {
        ...{ number: 'K-2', clientId, issuedOn: '2026-03-01', amount: '8.00' },
      })
      assert.equal(put.statusCode, 200, put.body)
      const { amount, currency, origin, status, remark, total, reference } = (await get(`/v2/invoices/${id}`)).json()
      assert.deepEqual(
        [reference, total, amount, currency, origin, status, remark],
        [...['K-2', '8.00', 9, 'USD', 'app', 'sent', undefined]],
      )
      const patch = { payBy: '2026-05-01', place: { city: 'Ulm', zip: '1' } }
      assert.equal((await change('PATCH', `/v1/invoices/${id}`, patch)).statusCode, 200)
      const cleared = await change('PATCH', `/v1/invoices/${id}`, { payBy: null, place: { zip: null } })
      assert.deepEqual([cleared.json().payBy, cleared.json().place], [undefined, { city: 'Ulm' }])
      const kept = (await get(`/v2/invoices/${id}`)).json()
      assert.deepEqual([kept.amount, kept.currency, kept.due, kept.address], [9, 'USD', undefined, { city: 'Ulm' }])
    })

    it('uses the view’s field names in 400, 409 and 422 errors', async () => {
      const missing = await post({ number: 'E-1' })
      assert.equal(missing.statusCode, 400, missing.body)
      assert.match(missing.body, /"clientId"/)
      assert.doesNotMatch(missing.body, /customerId|currency|origin|"total"/)
      const invalid = await post(fresh({ amount: '1.234', payBy: 'soon' }))
      assert.equal(invalid.statusCode, 422, invalid.body)
      assert.match(invalid.body, /"amount".*"payBy"|"payBy".*"amount"/)
      const broken = await post(fresh({ payBy: '2026-01-01' }))
      assert.equal(broken.statusCode, 422, broken.body)
      assert.match(broken.body, /"payBy".*must not precede the issue/)
      const reference = await post(fresh({ clientId: 999 }))
      assert.equal(reference.statusCode, 422, reference.body)
      assert.match(reference.body, /"clientId".*refers to no customer/)
      const { id, number, amount } = await create()
      const duplicate = await post(fresh({ number: String(number).toLowerCase() }))
      assert.equal(duplicate.statusCode, 409, duplicate.body)
      assert.match(duplicate.body, /Another invoice has this number/)
      const together = await post(fresh({ amount }))
      assert.equal(together.statusCode, 409, together.body)
      assert.match(together.body, /Another invoice has this clientId and amount/)
      const fixed = await change('PATCH', `/v1/invoices/${id}`, { issuedOn: '2026-03-02' })
      assert.equal(fixed.statusCode, 422, fixed.body)
      assert.match(fixed.body, /"issuedOn".*cannot be changed/)
      const gone = await change('PATCH', `/v1/invoices/${id}`, { number: null })
      assert.match(gone.body, /"number"/)
    })

    it('422 for a broken rule on a hidden field; the error states that this version does not have the field', async () => {
      const own = { reference: 'H-1', customerId: clientId, issued: '2026-03-01', total: '7.77' }
      const payload = { ...own, currency: 'USD', origin: 'app' }
      const { id } = (await send({ method: 'POST', url: '/v2/invoices', payload })).json()
      const refused = await change('PATCH', `/v1/invoices/${id}`, { amount: '5000.00' })
      assert.equal(refused.statusCode, 422, refused.body)
      assert.match(refused.body, /must be EUR for large totals \(a field that this version does not have\)/)
    })

    it('accepts only the view’s field names in filters, sorts and searches', async () => {
      const [one, two] = [
        await create({ amount: '100.25', payBy: '2030-01-01' }),
        await create({ amount: '200.25', note: 'needle' }),
      ]
      const both = [one.number, two.number]
      assert.deepEqual(await numbers(`number=${String(one.number).toLowerCase()}`), [one.number])
      assert.deepEqual(await numbers('amount=200.25'), [two.number])
      assert.deepEqual(await numbers('minAmount=100&maxAmount=201&sort=-amount'), both.toReversed())
      assert.deepEqual(await numbers('payByAfter=2029-01-01'), [one.number])
      assert.deepEqual(await numbers(`number[in]=${both.join()}&sort=number`), both.toSorted())
      assert.deepEqual(await numbers('amount[from]=100&amount[before]=200.25'), [one.number])
      assert.deepEqual(await numbers('payBy[null]=false&minAmount=100'), [one.number])
      assert.deepEqual(await numbers(`or=amount:100.25,number:${two.number}`), both)
      assert.deepEqual(await numbers('q=NEEDLE'), [two.number])
      assert.deepEqual(await numbers('q=v1'), [], 'origin is not searched')
      assert.deepEqual(await numbers(`clientId=${clientId}&minAmount=200`), [two.number])
      for (const query of [
        'reference=x',
        'currency=EUR',
        'total=1.00',
        'minTotal=1',
        'dueAfter=2026-01-01',
        'due[null]=true',
      ])
        await wrong(`/v1/invoices?${query}`)
      assert.match(await wrong('/v1/invoices?sort=reference'), /use one of id, amount, number/)
      assert.match(await wrong('/v1/invoices?or=currency:EUR'), /does not support 'currency'/)
      assert.match(await wrong('/v2/invoices?number=x'), /number/)
    })

    it('can be paged forwards and backwards when sorted by a renamed field', async () => {
      const all = await numbers('sort=-amount,number&limit=100')
      const seen: unknown[] = []
      let last = ''
      for (let next: string | undefined = '/v1/invoices?sort=-amount,number&limit=2'; next; ) {
        const page = await get(next)
        seen.push(...page.json().map(({ number }: Members) => number))
        last = next
        next = /<([^>]+)>; rel="next"/.exec(String(page.headers.link))?.[1]
      }
      assert.deepEqual(seen, all)
      assert.match(last, /^\/v1\/invoices/)
      const back = /<([^>]+)>; rel="prev"/.exec(String((await get(last)).headers.link))?.[1]
      assert.equal((await get(String(back))).json().length, 2)
      const counted = await get('/v1/invoices?minAmount=0', { prefer: 'count=exact' })
      assert.equal(Number(counted.headers['x-total-count']), all.length)
    })

    it('has the same members in lists as in single rows, without write-only fields; `fields` uses the view’s names', async () => {
      const { id, number } = await create({ note: 'part', pin: '9' })
      const read = (await get(`/v1/invoices/${id}`)).json()
      assert.deepEqual((await get(`/v1/invoices?number=${number}`)).json(), [read])
      assert.equal('pin' in read, false)
      assert.deepEqual((await get(`/v1/invoices/${id}?fields=number,note`)).json(), { number, note: 'part' })
      assert.deepEqual((await get(`/v1/invoices?number=${number}&fields=number,currency`)).json(), [{ number }])
    })

    it('expands renamed references, even in nested lists, and uses the view’s field names in related rows', async () => {
      const { id, number } = await create()
      const line = await post({ billId: id, label: 'Work' }, '/v1/lines')
      assert.equal(line.statusCode, 201, line.body)
      const expanded = (await get(`/v1/lines/${line.json().id}?expand=bill.client`)).json()
      assert.deepEqual([expanded.bill.number, expanded.bill.client.name], [number, 'Ada'])
      assert.equal('currency' in expanded.bill, false)
      const whole = (await get(`/v1/invoices/${id}?expand=client,lines&fields=number,client.name,lines.label`)).json()
      assert.deepEqual(whole, { number, client: { name: 'Ada' }, lines: [{ label: 'Work' }] })
      assert.match(await wrong(`/v1/invoices/${id}?expand=customer`), /use one of client, lines/)
      assert.equal(
        (await get(`/v2/lines/${line.json().id}?expand=invoice.customer`)).json().invoice.customer.name,
        'Ada',
      )
      const nested = (await get(`/v1/invoices/${id}/lines`)).json()
      assert.deepEqual(
        nested.map(({ billId, label }: Members) => [billId, label]),
        [[id, 'Work']],
      )
      const ofCustomer = (await get(`/v1/customers/${clientId}/invoices?number=${number}&expand=client`)).json()
      assert.deepEqual(
        ofCustomer.map((one: Members) => [one.number, (one.client as Members).name]),
        [[number, 'Ada']],
      )
      const inUse = await send({ method: 'DELETE', url: `/v1/customers/${clientId}` })
      assert.equal(inUse.statusCode, 409, inUse.body)
      assert.equal((await send({ method: 'DELETE', url: `/v1/invoices/${id}` })).statusCode, 204)
      assert.equal((await get(`/v2/lines/${line.json().id}`)).statusCode, 404)
    })

    it('accepts the tag of either version in If-Match, but only its own tag in If-None-Match', async () => {
      const created = await post(fresh())
      const { id } = created.json()
      const [v1, v2] = [`/v1/invoices/${id}`, `/v2/invoices/${id}`]
      const tagOf = async (url: string) => String((await get(url)).headers.etag)
      assert.equal(await tagOf(v2), '"1"')
      assert.match(await tagOf(v1), /^"1\.[0-9a-f]{8}"$/)
      assert.equal(created.headers.etag, await tagOf(v1))
      assert.equal((await get(v1, { 'if-none-match': await tagOf(v1) })).statusCode, 304)
      assert.equal((await get(v2, { 'if-none-match': await tagOf(v1) })).statusCode, 200)
      assert.equal((await get(v1, { 'if-none-match': await tagOf(v2) })).statusCode, 200)
      const first = await change('PATCH', v2, { remark: 'a' }, { 'if-match': await tagOf(v1) })
      assert.deepEqual([first.statusCode, first.headers.etag], [200, '"2"'])
      const second = await change('PATCH', v1, { note: 'b' }, { 'if-match': '"2"' })
      assert.equal(second.statusCode, 200, second.body)
      assert.match(String(second.headers.etag), /^"3\./)
      for (const stale of ['"2"', String(created.headers.etag)]) {
        assert.equal((await change('PATCH', v1, { note: 'c' }, { 'if-match': stale })).statusCode, 412)
        assert.equal((await change('PATCH', v2, { remark: 'c' }, { 'if-match': stale })).statusCode, 412)
      }
      const deleted = await send({ method: 'DELETE', url: v2, headers: { 'if-match': await tagOf(v1) } })
      assert.equal(deleted.statusCode, 204)
    })

    it('shows a change made in v2, even if its pages and representations were cached', async () => {
      const { id, number } = await create()
      const urls = [
        `/v1/invoices/${id}`,
        `/v2/invoices/${id}`,
        `/v1/invoices?number=${number}`,
        `/v2/invoices?reference=${number}`,
      ]
      const read = () => Promise.all(urls.map(async (url) => (await get(url)).body))
      assert.deepEqual(await read(), await read())
      await change('PATCH', `/v2/invoices/${id}`, { remark: 'seen', currency: 'USD' })
      const [one, own, listed, ownListed] = await read()
      assert.equal(JSON.parse(String(one)).note, 'seen')
      assert.equal(JSON.parse(String(own)).remark, 'seen')
      assert.equal(JSON.parse(String(listed))[0].note, 'seen')
      assert.equal(JSON.parse(String(ownListed))[0].currency, 'USD')
    })

    it('201 for a POST repeated with the same Idempotency-Key, without creating a second row', async () => {
      const payload = fresh()
      const headers = { 'idempotency-key': `key-${made}` }
      const first = await send({ method: 'POST', url: '/v1/invoices', payload, headers })
      const again = await send({ method: 'POST', url: '/v1/invoices', payload, headers })
      assert.deepEqual([again.statusCode, again.body], [201, first.body])
      assert.deepEqual([again.headers.etag, again.headers.location], [first.headers.etag, first.headers.location])
      assert.deepEqual(
        [first.headers['idempotent-replayed'], again.headers['idempotent-replayed']],
        [undefined, 'true'],
      )
      assert.deepEqual(await numbers(`number=${payload.number}`), [payload.number])
    })

    it('is documented in each version with that version’s field names', async () => {
      const document = (await get('/v1/openapi.json')).json()
      const { paths, components } = document
      const { Job: _, ...schemas } = components.schemas
      const own = [paths['/invoices'], paths['/invoices/{id}'], schemas, components.parameters]
      const foreign = /.{0,40}("reference|customerId|currency|\borigin\b|Hidden|"due(?!Since)|remark).{0,20}/.exec(
        JSON.stringify(own),
      )
      assert.equal(foreign?.[0], undefined)
      const schema = components.schemas.InvoiceCreate
      assert.deepEqual(Object.keys(schema.properties), [
        ...['number', 'clientId', 'status', 'issuedOn', 'payBy', 'amount', 'note', 'pin', 'place'],
      ])
      assert.deepEqual(schema.required, ['number', 'clientId', 'issuedOn', 'amount'])
      const newest = (await get('/v2/openapi.json')).json().components.schemas.InvoiceCreate
      assert.ok('reference' in newest.properties && newest.required.includes('currency'))
    })
  })
})
