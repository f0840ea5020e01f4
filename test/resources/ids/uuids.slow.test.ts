import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { appOn, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { definition, scopes } from './service.ts'

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
type Row = { id: string; [field: string]: unknown }

const uuidForm = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const missing = '01890a5d-ac96-774b-bcce-b302099a8057'
const idsOf = (rows: Row[]) => rows.map(({ id }) => id)

forEachEngine((engine) => {
  const service = appOn(engine, { definition })
  const send = (method: Method, url: string, payload?: object, headers: Record<string, string> = {}) =>
    service.send({ method, url, scopes, headers, ...(payload && { payload }) })
  const add = async (path: string, body: object): Promise<Row> => {
    const response = await send('POST', path, body)
    assert.equal(response.statusCode, 201, response.body)
    return response.json()
  }
  const list = async (url: string): Promise<Row[]> => {
    const response = await send('GET', url)
    assert.equal(response.statusCode, 200, response.body)
    return response.json()
  }
  const errorsOf = async (method: Method, url: string, payload?: object) => {
    const response = await send(method, url, payload)
    const errors = (response.json().errors ?? []) as { field: string; message: string }[]
    return [response.statusCode, errors.map(({ field, message }) => `${field} ${message}`)]
  }

  describe('a row with a UUID', () => {
    it('201 with Location and a version 7 UUID of the current time, greater than the previous one', async () => {
      const made: string[] = []
      for (let n = 0; n < 5; n++) {
        const response = await send('POST', '/customers', { name: `Ada ${n}` })
        assert.equal(response.statusCode, 201, response.body)
        const { id, _links } = response.json()
        assert.match(id, uuidForm)
        assert.equal(response.headers.location, `/customers/${id}`)
        assert.equal(_links.self.href, `/customers/${id.toUpperCase()}`)
        assert.equal(Number.parseInt(id.replace('-', '').slice(0, 12), 16), service.clock.now)
        made.push(id)
      }
      assert.deepEqual(made, made.toSorted())
      assert.deepEqual(idsOf(await list('/customers')), made)
    })

    it('200 for its UUID in upper case, with the same representation and tag', async () => {
      const { id } = await add('/customers', { name: 'Upper' })
      const [lower, upper] = [
        await send('GET', `/customers/${id}`),
        await send('GET', `/customers/${id.toUpperCase()}`),
      ]
      assert.deepEqual([upper.statusCode, upper.json()], [200, lower.json()])
      assert.equal(upper.headers.etag, lower.headers.etag)
    })

    it('400 for an id that is not a UUID, 404 for a missing row', async () => {
      for (const id of [
        '1',
        'abc',
        `${missing}0`,
        `urn:uuid:${missing}`,
        `{${missing}}`,
        missing.replaceAll('-', ''),
      ]) {
        for (const method of ['GET', 'PUT', 'PATCH', 'DELETE'] as const) {
          const body = method === 'PUT' ? { name: 'Ada' } : method === 'PATCH' ? { name: 'Bob' } : undefined
          assert.deepEqual(
            await errorsOf(method, `/customers/${id}`, body),
            [400, ['id must be a UUID']],
            `${method} ${id}`,
          )
        }
      }
      assert.equal((await send('GET', `/customers/${missing}`)).statusCode, 404)
      assert.equal((await send('PUT', `/customers/${missing}`, { name: 'Ada' })).statusCode, 404)
      assert.equal((await send('PATCH', `/customers/${missing}`, { name: 'Ada' })).statusCode, 404)
      const gone = await send('DELETE', `/customers/${missing}`)
      assert.deepEqual([gone.statusCode, gone.json().detail], [404, `There is no customer ${missing}`])
    })

    it('304 for its current tag, 412 for an outdated one, otherwise 200 or 204 for PUT, PATCH and DELETE', async () => {
      const { id } = await add('/customers', { name: 'Old' })
      const at = `/customers/${id}`
      const { etag = '' } = (await send('GET', at)).headers as { etag?: string }
      assert.equal((await send('GET', at, undefined, { 'if-none-match': etag })).statusCode, 304)
      const put = await send('PUT', at, { name: 'New' }, { 'if-match': etag })
      assert.deepEqual([put.statusCode, put.json().name, put.json().id], [200, 'New', id])
      for (const method of ['PUT', 'PATCH', 'DELETE'] as const) {
        const body = method === 'DELETE' ? undefined : { name: 'Newer' }
        assert.equal((await send(method, at, body, { 'if-match': etag })).statusCode, 412)
      }
      assert.equal((await send('PATCH', at, { name: 'Newest' })).json().name, 'Newest')
      assert.equal((await send('GET', at)).json().name, 'Newest')
      assert.deepEqual([(await send('DELETE', at)).statusCode, (await send('GET', at)).statusCode], [204, 404])
    })

    it('201 with the same row and Location when its Idempotency-Key is repeated; only one row is stored', async () => {
      const key = { 'idempotency-key': `"uuid-${engine.name}"` }
      const first = await send(
        'POST',
        '/tickets',
        { customerId: (await add('/customers', { name: 'K' })).id, text: 'a' },
        key,
      )
      assert.equal(first.statusCode, 201, first.body)
      const again = await send(
        'POST',
        '/tickets',
        JSON.parse(JSON.stringify({ customerId: first.json().customerId, text: 'a' })),
        key,
      )
      assert.deepEqual([again.json(), again.headers.location], [first.json(), first.headers.location])
      assert.deepEqual([again.statusCode, again.headers['idempotent-replayed']], [201, 'true'])
      const stored = await send('GET', `/tickets?customerId=${first.json().customerId}`)
      assert.deepEqual(
        stored.json().map(({ id }: Row) => id),
        [first.json().id],
      )
    })
  })

  describe('lists of rows with UUIDs', () => {
    const made: Row[] = []
    before(async () => {
      const [one, other] = [await add('/customers', { name: 'Pages' }), await add('/customers', { name: 'Others' })]
      for (let n = 0; n < 7; n++) {
        // Spreads the rows over several milliseconds, with two rows in most of them.
        service.clock.now += n % 2
        const body = { customerId: (n % 3 ? one : other).id, reference: `R${n % 3}-${n}`, total: '1.00' }
        const name = n % 3 ? 'Pages' : 'Others'
        made.push({ ...(await add('/invoices', body)), 'customer.id': body.customerId, 'customer.name': name })
      }
    })

    /** Follows the links with this `rel` and returns the ids on each page. */
    const walk = async (url: string, rel: 'next' | 'prev') => {
      const pages: string[][] = []
      for (let at: string | undefined = url; at; ) {
        const response = await send('GET', at)
        assert.equal(response.statusCode, 200, response.body)
        pages.push(idsOf(response.json()))
        at = new RegExp(`<([^>]*)>; rel="${rel}"`).exec(String(response.headers.link))?.[1]
        if (rel === 'next' && at === undefined) return { pages, last: response }
      }
      return { pages, last: undefined }
    }

    for (const sort of [
      'id',
      '-id',
      'reference',
      'customerId',
      '-customerId',
      '-customerId,reference',
      'createdAt',
      'customer.name',
      '-customer.id',
      'customer.id,-reference',
    ]) {
      it(`200 for pages sorted by ${sort}, forwards and backwards`, async () => {
        const whole = idsOf(await list(`/invoices?sort=${sort}`))
        const fields = sort.split(',').map((field) => [field.replace('-', ''), field.startsWith('-') ? -1 : 1] as const)
        const compare = (left: Row, right: Row) => {
          for (const [field, sign] of [...fields, ['id', fields.at(-1)?.[1] ?? 1] as const]) {
            const [one, two] = [String(left[field]), String(right[field])]
            if (one !== two) return one < two ? -sign : sign
          }
          return 0
        }
        assert.deepEqual(whole, idsOf(made.toSorted(compare)))
        const { pages, last } = await walk(`/invoices?sort=${sort}&limit=3`, 'next')
        assert.deepEqual([pages.length, pages.flat()], [3, whole])
        const prev = /<([^>]*)>; rel="prev"/.exec(String(last?.headers.link))?.[1]
        const back = await walk(String(prev), 'prev')
        assert.deepEqual(back.pages.toReversed().flat(), whole.slice(0, 6))
      })
    }

    it('200 for pages sorted by a field of a related row; rows without a related row come last', async () => {
      const parent = await add('/customers', { name: 'A parent' })
      for (const name of ['one', 'two', 'three']) await add('/customers', { name, parentId: parent.id })
      for (const sort of ['parent.id', '-parent.id', 'parent.name,-id']) {
        const whole = await list(`/customers?sort=${sort}&limit=200`)
        const isMissing = whole.map(({ parentId }) => parentId === undefined)
        assert.deepEqual(isMissing, isMissing.toSorted(), 'last')
        const { pages } = await walk(`/customers?sort=${sort}&limit=2`, 'next')
        assert.deepEqual(pages.flat(), idsOf(whole), sort)
      }
    })

    it('400 for a cursor whose id is not a lower-case UUID', async () => {
      const link = String((await send('GET', '/countries?limit=1')).headers.link)
      assert.ok(link)
      const next = String((await send('GET', '/invoices?limit=1')).headers.link)
      const cursor = String(/cursor=([^&>]*)/.exec(next)?.[1])
      const [mark, ...rest] = JSON.parse(Buffer.from(cursor, 'base64url').toString())
      for (const wrong of [7, 'x', missing.toUpperCase(), null]) {
        const changed = JSON.stringify([mark, ...rest]).replace(/"[0-9a-f]{8}-[0-9a-f-]{27}"/, JSON.stringify(wrong))
        const sent = Buffer.from(changed).toString('base64url')
        assert.equal((await send('GET', `/invoices?limit=1&cursor=${sent}`)).statusCode, 400, changed)
      }
    })

    it('200 for filtering by a reference with equality, `in`, `not` and `or`; the UUID may be in upper case', async () => {
      const id = String(made[0]?.customerId)
      const of = idsOf(made.filter(({ customerId }) => customerId === id))
      const rest = idsOf(made).filter((one) => !of.includes(one))
      assert.deepEqual(idsOf(await list(`/invoices?customerId=${id}`)), of)
      assert.deepEqual(idsOf(await list(`/invoices?customerId=${id.toUpperCase()}`)), of)
      assert.deepEqual(idsOf(await list(`/invoices?customerId[in]=${id.toUpperCase()},${missing}`)), of)
      assert.deepEqual(idsOf(await list(`/invoices?customerId[not]=${id}`)), rest)
      assert.deepEqual(idsOf(await list(`/invoices?or=customerId:${id},reference:none`)), of)
      assert.deepEqual(idsOf(await list(`/invoices?customer.name=Others`)), of)
      const counted = await send('GET', `/invoices?customerId=${id}`, undefined, { prefer: 'count=exact' })
      assert.equal(counted.headers['x-total-count'], String(of.length))
    })

    it('400 for a filter value that is not a UUID, naming the parameter', async () => {
      assert.deepEqual(await errorsOf('GET', '/invoices?customerId=7'), [400, ['customerId must be a UUID']])
      assert.deepEqual(await errorsOf('GET', '/invoices?customerId[in]=7'), [
        400,
        ['customerId[in] must be a UUID, not "7"'],
      ])
      assert.deepEqual(await errorsOf('GET', '/invoices?customerId[not]=x'), [
        400,
        ['customerId[not] must be a UUID, not "x"'],
      ])
    })

    it('200 for q, which finds a renamed row only by its new name', async () => {
      const { id } = await add('/customers', { name: 'Zanzibar' })
      assert.deepEqual(idsOf(await list('/customers?q=nzib')), [id])
      await send('PATCH', `/customers/${id}`, { name: 'Timbuktu' })
      assert.deepEqual([idsOf(await list('/customers?q=nzib')), idsOf(await list('/customers?q=MBUK'))], [[], [id]])
    })

    it('304 for an unchanged page, 200 after a change', async () => {
      const { etag } = (await send('GET', '/invoices?limit=2')).headers
      assert.equal(
        (await send('GET', '/invoices?limit=2', undefined, { 'if-none-match': String(etag) })).statusCode,
        304,
      )
      await send('PATCH', `/invoices/${made[0]?.id}`, { total: '2.00' })
      assert.equal(
        (await send('GET', '/invoices?limit=2', undefined, { 'if-none-match': String(etag) })).statusCode,
        200,
      )
    })
  })

  describe('references to rows with UUIDs', () => {
    it('201 for references between integer ids and UUIDs in both directions, and within one collection; 200 when expanded', async () => {
      const country = await add('/countries', { name: 'Peru' })
      const parent = await add('/customers', { name: 'Parent', countryId: country.id })
      const child = await add('/customers', { name: 'Child', parentId: parent.id.toUpperCase() })
      assert.equal(child.parentId, parent.id)
      const invoice = await add('/invoices', { reference: 'A', customerId: child.id, total: '5.25' })
      const line = await add('/lines', { invoiceId: invoice.id, text: 'a' })
      const [expanded] = await list(`/lines?invoiceId=${invoice.id}&expand=invoice.customer.parent`)
      assert.deepEqual(expanded, {
        ...line,
        invoice: {
          ...invoice,
          customer: {
            ...(await send('GET', `/customers/${child.id}`)).json(),
            parent: (await send('GET', `/customers/${parent.id}`)).json(),
          },
        },
      })
      const read = (await send('GET', `/countries/${country.id}?expand=customers`)).json()
      assert.deepEqual(idsOf(read.customers), [parent.id])
      assert.deepEqual(idsOf((await send('GET', `/customers/${child.id}?expand=invoices.lines`)).json().invoices), [
        invoice.id,
      ])
    })

    it('200 for a nested list; 404 if its parent row is missing, 400 if the parent id is not a UUID', async () => {
      const customer = await add('/customers', { name: 'Nested' })
      const invoice = await add('/invoices', { reference: 'A', customerId: customer.id, total: '1.00' })
      assert.deepEqual(idsOf(await list(`/customers/${customer.id.toUpperCase()}/invoices`)), [invoice.id])
      assert.equal((await send('GET', `/customers/${missing}/invoices`)).statusCode, 404)
      assert.deepEqual(await errorsOf('GET', '/customers/7/invoices'), [400, ['id must be a UUID']])
      assert.deepEqual(await list(`/invoices/${invoice.id}/lines`), [])
    })

    it('422 for a reference to a missing row or a malformed UUID, 400 for a value of another type', async () => {
      const with_ = (customerId: unknown) => ({ reference: 'A', customerId, total: '1.00' })
      assert.deepEqual(await errorsOf('POST', '/invoices', with_(missing)), [
        422,
        [`customerId refers to no customer: there is no ${missing}`],
      ])
      assert.deepEqual(await errorsOf('POST', '/invoices', with_('abc')), [422, ['customerId must be a UUID']])
      assert.deepEqual(await errorsOf('POST', '/customers', { name: 'a', parentId: 'abc' }), [
        422,
        ['parentId must be a UUID'],
      ])
      assert.equal((await send('POST', '/invoices', with_(7))).statusCode, 400)
      assert.equal((await send('POST', '/customers', { name: 'a', countryId: missing })).statusCode, 400)
      const { id } = await add('/customers', { name: 'P' })
      assert.equal((await send('PATCH', `/customers/${id}`, { parentId: missing })).statusCode, 422)
      assert.equal((await send('PATCH', `/customers/${id}`, { parentId: id.toUpperCase() })).json().parentId, id)
    })

    it('409 for the deletion of a row in use, 204 if the references to it cascade or are set to null', async () => {
      const customer = await add('/customers', { name: 'Used' })
      const child = await add('/customers', { name: 'Child', parentId: customer.id })
      const visit = await add('/visits', { customerId: customer.id, text: 'v' })
      const invoice = await add('/invoices', { reference: 'A', customerId: customer.id, total: '1.00' })
      const line = await add('/lines', { invoiceId: invoice.id, text: 'a' })
      const refused = await send('DELETE', `/customers/${customer.id}`)
      assert.deepEqual(
        [refused.statusCode, refused.json().detail],
        [409, `The customer ${customer.id} is referred to by 1 invoices`],
      )
      assert.equal((await send('DELETE', `/invoices/${invoice.id}`)).statusCode, 204)
      assert.equal((await send('GET', `/lines/${line.id}`)).statusCode, 404)
      assert.equal((await send('DELETE', `/customers/${customer.id}`)).statusCode, 204)
      assert.equal((await send('GET', `/customers/${child.id}`)).json().parentId, undefined)
      assert.equal((await send('GET', `/visits/${visit.id}`)).json().customerId, undefined)
    })

    it('409 for a duplicate of a unique tuple that includes a reference', async () => {
      const { id } = await add('/customers', { name: 'Twice' })
      await add('/invoices', { reference: 'A', customerId: id, total: '1.00' })
      assert.deepEqual(
        await errorsOf('POST', '/invoices', { reference: 'a', customerId: id.toUpperCase(), total: '2.00' }),
        [
          409,
          [
            'customerId is in use already together with reference',
            'reference is in use already together with customerId',
          ],
        ],
      )
    })

    it('update sums and counts when rows are added, moved and deleted', async () => {
      const [one, other] = [await add('/customers', { name: 'One' }), await add('/customers', { name: 'Other' })]
      const totals = async () => {
        const both = await Promise.all(
          [one, other].map(async ({ id }) => (await send('GET', `/customers/${id}`)).json()),
        )
        return both.map(({ invoiceCount, invoiced }) => [invoiceCount, invoiced])
      }
      const invoice = await add('/invoices', { reference: 'A', customerId: one.id, total: '1.50' })
      await add('/invoices', { reference: 'B', customerId: one.id, total: '2.00' })
      assert.deepEqual(await totals(), [
        [2, '3.50'],
        [0, '0.00'],
      ])
      await send('PATCH', `/invoices/${invoice.id}`, { customerId: other.id, total: '4.00' })
      assert.deepEqual(await totals(), [
        [1, '2.00'],
        [1, '4.00'],
      ])
      await send('DELETE', `/invoices/${invoice.id}`)
      assert.deepEqual(await totals(), [
        [1, '2.00'],
        [0, '0.00'],
      ])
    })

    it('can be written, filtered by and expanded in a version that renames them', async () => {
      const { id } = await add('/customers', { name: 'View' })
      const row = await add('/v2/invoices', { number: 'A', buyerId: id, total: '1.00' })
      assert.equal((await send('GET', `/invoices/${row.id}`)).json().customerId, id)
      const found = (await send('GET', `/v2/invoices?buyerId=${id}&expand=buyer`)).json()
      const rows = found.items ?? found.data ?? found
      assert.deepEqual(
        rows.map((one: Row) => [one.id, (one.buyer as Row).id]),
        [[row.id, id]],
      )
      assert.equal((await send('PATCH', `/v2/invoices/${row.id}`, { number: 'B' })).json().number, 'B')
    })
  })

  describe('access rules that compare UUIDs', () => {
    const rows = {} as Record<'own' | 'foreign' | 'ticket' | 'hidden' | 'reply' | 'visit', Row>
    before(async () => {
      rows.own = await add('/customers', { name: 'Own' })
      rows.foreign = await add('/customers', { name: 'Foreign' })
      rows.ticket = await add('/tickets', { customerId: rows.own.id, text: 'own' })
      rows.hidden = await add('/tickets', { customerId: rows.foreign.id, text: 'hidden' })
      rows.reply = await add('/replies', { ticketId: rows.ticket.id, text: 'own' })
      await add('/replies', { ticketId: rows.hidden.id, text: 'hidden' })
      rows.visit = await add('/visits', { customerId: rows.own.id, text: 'own' })
      await add('/visits', { customerId: rows.foreign.id, text: 'hidden' })
    })
    const as = (method: Method, url: string, payload?: object) =>
      service.send({ method, url, token: token(scopes, `of_${rows.own.id}`), ...(payload && { payload }) })

    it('200 with only the readable rows in lists, 404 for the others', async () => {
      for (const [path, row] of [
        ['/tickets', rows.ticket],
        ['/replies', rows.reply],
        ['/visits', rows.visit],
      ] as const) {
        assert.deepEqual(idsOf((await as('GET', path)).json()), [row.id], path)
        assert.equal((await as('GET', `${path}/${row.id}`)).statusCode, 200)
      }
      assert.deepEqual(idsOf((await as('GET', '/tickets?q=own')).json()), [rows.ticket.id])
      assert.equal((await as('GET', `/tickets/${rows.hidden.id}`)).statusCode, 404)
      assert.equal((await as('DELETE', `/tickets/${rows.hidden.id}`)).statusCode, 404)
    })

    it('403 for a write after which the caller could not read the row, 422 for a reference to an unreadable row', async () => {
      assert.equal((await as('POST', '/tickets', { customerId: rows.foreign.id, text: 'a' })).statusCode, 403)
      assert.equal((await as('PATCH', `/tickets/${rows.ticket.id}`, { customerId: rows.foreign.id })).statusCode, 403)
      const refused = await as('POST', '/replies', { ticketId: rows.hidden.id, text: 'a' })
      assert.deepEqual([refused.statusCode, refused.json().errors[0].field], [422, 'ticketId'])
      const made = await as('POST', '/replies', { ticketId: rows.ticket.id.toUpperCase(), text: 'a' })
      assert.deepEqual([made.statusCode, made.json().createdBy], [201, `client:of_${rows.own.id}`])
    })
  })

  describe('events of rows with UUIDs', () => {
    it('contain the id of the row; a deletion event contains nothing else', async () => {
      const payload = { event: 'invoice.*', callbackUrl: 'http://127.0.0.1:9/' }
      const hook = await send('POST', '/api/webhooks', payload)
      assert.equal(hook.statusCode, 201, hook.body)
      const customer = await add('/customers', { name: 'Events' })
      const { id } = await add('/invoices', { reference: 'A', customerId: customer.id, total: '1.00' })
      await send('DELETE', `/invoices/${id}`)
      const events = await service.db.read.selectFrom('events').select(['type', 'body']).orderBy('id').execute()
      const own = events
        .filter(({ type }) => type.startsWith('invoice.'))
        .map(({ type, body }) => [type, JSON.parse(body)])
      assert.deepEqual(own.map(([type]) => type).toSorted(), ['invoice.created', 'invoice.deleted'])
      const bodies = Object.fromEntries(own)
      assert.deepEqual(bodies['invoice.deleted'], { id })
      assert.deepEqual([bodies['invoice.created'].id, bodies['invoice.created'].customerId], [id, customer.id])
    })
  })

  describe('the OpenAPI document', () => {
    it('describes ids in paths, references, query parameters and representations as UUIDs', async () => {
      const document = (await service.send({ url: '/openapi.json', scopes: null })).json()
      const resolved = (value: Record<string, unknown>): Record<string, never> =>
        typeof value.$ref === 'string'
          ? resolved(
              value.$ref
                .split('/')
                .slice(1)
                .reduce((at, name) => at[name], document),
            )
          : (value as never)
      const isUuid = (schema: Record<string, unknown>) => [resolved(schema).type, resolved(schema).format]
      const parametersOf = (path: string, method = 'get') => {
        const own = document.paths[path][method].parameters ?? []
        const all = [...own, ...(document.paths[path].parameters ?? [])].map(resolved) as unknown as {
          name: string
          schema: object
        }[]
        return Object.fromEntries(all.map(({ name, schema }) => [name, isUuid(schema as never)]))
      }
      for (const path of ['/customers/{id}', '/customers/{id}/invoices']) {
        assert.deepEqual(parametersOf(path).id, ['string', 'uuid'], path)
      }
      assert.deepEqual(parametersOf('/lines/{id}').id, ['integer', 'int64'])
      assert.deepEqual(parametersOf('/invoices').customerId, ['string', 'uuid'])
      assert.deepEqual(parametersOf('/customers').countryId, ['integer', 'int64'])
      const body = resolved(document.paths['/invoices'].post.requestBody.content['application/json'].schema)
      assert.deepEqual(isUuid((body.properties as unknown as Record<'customerId', object>).customerId as never), [
        'string',
        'uuid',
      ])
      const response = resolved(
        document.paths['/invoices/{id}'].get.responses['200'].content['application/json'].schema,
      )
      assert.deepEqual(isUuid((response.properties as unknown as Record<'id', object>).id as never), ['string', 'uuid'])
      const removed = JSON.stringify(document.webhooks['invoice.deleted'])
      assert.match(removed, /"format":"uuid"|\$ref/)
    })
  })
})
