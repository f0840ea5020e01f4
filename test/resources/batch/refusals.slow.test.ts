import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { batchServiceOn, type Item, post, ref, scopes, south } from './service.ts'

type At = [status: number, errorCode: string, field: string]
type Refusal = [...At, message?: RegExp]

forEachEngine((engine) => {
  describe('POST /api/batch, rejected as a whole', () => {
    const service = batchServiceOn(engine)
    const { send, batch, customer, invoice, counts } = service.api

    /** Sends a batch that must be rejected; asserts that it stored nothing. */
    const refused = async (items: unknown, [status, errorCode, field, message]: Refusal, headers = {}) => {
      const before = await counts()
      const response = await batch(items, headers)
      const body = response.json()
      assert.deepEqual([response.statusCode, body.errorCode, body.errors?.[0]?.field], [status, errorCode, field])
      if (message) assert.match(body.errors[0].message, message)
      assert.deepEqual(await counts(), before)
      return response
    }
    const valid = () => post('customers', customer())

    it('422 for no items and for 101 items, 400 for anything but a list (T-LIM-10)', async () => {
      await refused([], [422, 'VALIDATION_ERROR', 'items'])
      await refused(Array.from({ length: 101 }, valid), [422, 'VALIDATION_ERROR', 'items'])
      await refused({ 0: valid() }, [400, 'INVALID_INPUT', 'items'])
      await refused([valid(), 'DELETE'], [400, 'INVALID_INPUT', 'items.1'])
      await refused(undefined, [400, 'MISSING_REQUIRED_FIELD', 'items'])
    })

    it('422 naming the collections and methods that are allowed', async () => {
      const at = (field: string): At => [422, 'VALIDATION_ERROR', field]
      const unknown = post('orders', {})
      await refused(
        [valid(), unknown],
        [...at('items.1.collection'), /^must be one of customers, invoices, lines, entries$/],
      )
      await refused([post('archives', { text: 'x' })], at('items.0.collection'))
      await refused([{ ...valid(), method: 'GET' }], [...at('items.0.method'), /POST, PUT, PATCH, DELETE/])
      await refused(
        [{ method: 'DELETE', collection: 'entries', id: 1 }],
        [...at('items.0.method'), /^must be POST for entries$/],
      )
    })

    it('400 if an item lacks a member, 422 if it has a member that its method does not use', async () => {
      const { id } = await invoice()
      const change = { method: 'PATCH', collection: 'invoices', id, body: {} }
      const { id: _, ...withoutId } = change
      const { body: __, ...withoutBody } = change
      await refused([valid(), withoutId], [400, 'MISSING_REQUIRED_FIELD', 'items.1.id'])
      await refused([withoutBody], [400, 'MISSING_REQUIRED_FIELD', 'items.0.body'])
      await refused([{ method: 'POST', collection: 'customers' }], [400, 'MISSING_REQUIRED_FIELD', 'items.0.body'])
      await refused(
        [{ ...valid(), ifMatch: '*' }],
        [422, 'VALIDATION_ERROR', 'items.0.ifMatch', /not allowed with POST/],
      )
      await refused([{ ...change, method: 'DELETE' }], [422, 'VALIDATION_ERROR', 'items.0.body'])
      // A misspelled precondition must not become an unconditional write.
      await refused([{ ...change, 'if-match': '"9"' }], [422, 'VALIDATION_ERROR', 'items.0.if-match', /use .*ifMatch/])
    })

    it('422 for an id of the wrong type, 404 for an unknown id and for a row that an earlier item deleted', async () => {
      const remove = (collection: string, id: unknown): Item => ({ method: 'DELETE', collection, id })
      for (const id of ['1', 0, -1, { $ref: 7 }, { ref: '0.id' }])
        await refused([valid(), remove('lines', id)], [422, 'VALIDATION_ERROR', 'items.1.id'])
      for (const id of [true, 1.5]) await refused([valid(), remove('lines', id)], [400, 'INVALID_INPUT', 'items.1.id'])
      for (const id of [1, 'x']) await refused([remove('customers', id)], [422, 'VALIDATION_ERROR', 'items.0.id'])
      await refused([valid(), remove('lines', 999_999)], [404, 'RESOURCE_NOT_FOUND', 'items.1', /no line 999999/])
      const { lineId } = await invoice()
      await refused([remove('lines', lineId), remove('lines', lineId)], [404, 'RESOURCE_NOT_FOUND', 'items.1'])
    })

    it('422 for a reference to the same or a later item, to a deleted row, or to an absent field', async () => {
      const { id, lineId } = await invoice()
      const to = (text: unknown) => post('invoices', { customerId: { $ref: text } })
      const at: At = [422, 'VALIDATION_ERROR', 'items.1.body.customerId']
      await refused([valid(), to('1.id')], [...at, /not an earlier item/])
      await refused([valid(), to('2.id'), valid()], [...at, /not an earlier item/])
      await refused([valid(), to('99.id')], [...at, /not an earlier item/])
      for (const text of ['0', '0.', '.id', '-1.id', '00.id', '0.id.x', '0.__proto__.x', '100.id', 7, null])
        await refused([valid(), to(text)], [...at, /must refer to a field/])
      const removal = { method: 'DELETE', collection: 'lines', id: lineId }
      await refused([removal, to('0.id')], [...at, /deletes its row/])
      const change = { method: 'PATCH', collection: 'invoices', id, body: {} }
      await refused(
        [change, post('lines', { invoiceId: id, text: ref('0.note'), amount: '1' })],
        [...([422, 'VALIDATION_ERROR', 'items.1.body.text', /0\.note, which has no value/] as const)],
      )
      await refused([valid(), to('0.constructor')], [...at, /has no value/])
      // If lists and long texts could be referenced, each item could double the size of the previous item.
      for (const [name, body] of Object.entries({ tags: { tags: [1] }, note: { note: 'x'.repeat(1_001) } })) {
        const items = [
          { ...change, body },
          { ...change, body: { tags: [ref(`0.${name}`), ref(`0.${name}`)] } },
        ]
        await refused(items, [422, 'VALIDATION_ERROR', 'items.1.body.tags.0', /is not a string of at most 1,000/])
      }
      // The referenced id is a UUID, but this field requires an integer.
      await refused(
        [valid(), post('lines', { invoiceId: ref('0.id'), text: 'x', amount: '1' })],
        [...([400, 'INVALID_INPUT', 'items.1.body.invoiceId'] as const)],
      )
    })

    it('403 for an item without its scope, and for a new row that the access rules forbid; 404 for an unreadable row', async () => {
      const { id } = await invoice()
      const limited = token('customers:read customers:write invoices:read lines:read entries:read', 'crm_north')
      const items = [valid(), { method: 'DELETE', collection: 'invoices', id }]
      const before = await counts()
      const response = await batch(items, {}, { token: limited })
      assert.deepEqual([response.statusCode, response.json().errors[0].field], [403, 'items.1'])
      assert.match(String(response.headers['www-authenticate']), /insufficient_scope.*invoices:write/)
      assert.deepEqual(await counts(), before)
      assert.equal((await batch([valid()], {}, { token: token('openid', 'crm_north') })).statusCode, 403)
      assert.equal((await send({ method: 'POST', url: '/v2/api/batch', payload: {}, token: 'x' })).statusCode, 401)
      const foreign = [valid(), valid(), { method: 'PATCH', collection: 'invoices', id, body: { note: 'mine' } }]
      const unseen = await batch(foreign, {}, { token: south })
      assert.deepEqual([unseen.statusCode, unseen.json().errors[0].field], [404, 'items.2'])
      const homeless = await batch([valid()], {}, { token: token(scopes, 'nobody') })
      assert.deepEqual([homeless.statusCode, homeless.json().errors[0].field], [403, 'items.0'])
    })

    it('412 for a weak entity tag, and for one that an earlier item made outdated; nothing changes', async () => {
      const { id, customerId } = await invoice()
      const etag = String((await send({ url: `/v2/invoices/${id}` })).headers.etag)
      const change = { method: 'PATCH', collection: 'invoices', id, ifMatch: etag, body: { note: 'a' } }
      const failed = await refused(
        [valid(), change, { ...change, body: { note: 'b' } }, valid()],
        [412, 'PRECONDITION_FAILED', 'items.2'],
      )
      assert.match(failed.json().detail, /^items\.2: The invoice \d+ does not meet/)
      const line = post('lines', { invoiceId: id, text: 'moves the total', amount: '1' })
      await refused([line, { ...change, method: 'DELETE', body: undefined }], [412, 'PRECONDITION_FAILED', 'items.1'])
      await refused(
        [{ method: 'PUT', collection: 'customers', id: customerId, ifMatch: 'W/"1"', body: customer() }],
        [412, 'PRECONDITION_FAILED', 'items.0'],
      )
      assert.equal((await send({ url: `/v2/invoices/${id}` })).headers.etag, etag)
      assert.equal((await batch([change])).statusCode, 200)
    })

    it('409 for duplicates, even within the batch, for locked rows and for rows in use', async () => {
      const { id, customerId } = await invoice()
      const twice = valid()
      await refused([twice, twice], [409, 'DUPLICATE_RESOURCE', 'items.1.body.tenant'])
      const { reference } = await service.api.read(`/v2/invoices/${id}`)
      // The duplicate's access rule depends on a customer that the same batch creates.
      await refused(
        [valid(), post('invoices', { customerId: ref('0.id'), reference })],
        [409, 'DUPLICATE_RESOURCE', 'items.1.body.reference'],
      )
      await refused(
        [
          { method: 'PATCH', collection: 'invoices', id, body: { status: 'paid' } },
          { method: 'PATCH', collection: 'invoices', id, body: { note: 'late' } },
        ],
        [409, 'RESOURCE_LOCKED', 'items.1'],
      )
      await refused(
        [valid(), { method: 'DELETE', collection: 'customers', id: customerId }],
        [409, 'RESOURCE_IN_USE', 'items.1.id'],
      )
    })

    it('409 for a duplicate that the access rules allow, 403 for one that they forbid', async () => {
      await service.api.batch([post('entries', { tenant: 'north', code: 'taken' })])
      for (const [tenant, status, field] of [
        ['south', 409, 'items.1.body.code'],
        ['north', 403, 'items.1'],
      ]) {
        const response = await batch([valid(), post('entries', { tenant, code: 'taken' })], {}, { token: south })
        assert.deepEqual([response.statusCode, response.json().errors[0].field], [status, field])
      }
    })

    it('403 if the access rules forbid the third row, 422 for a reference to a row that the caller cannot read', async () => {
      const { customerId } = await invoice()
      const entry = (tenant: string, code: string) => post('entries', { tenant, code })
      await refused(
        [entry('north', 'one'), entry('north', 'two'), entry('south', 'three')],
        [403, 'PERMISSION_DENIED', 'items.2', /access rules of \/entries do not allow/],
      )
      const items = [valid(), post('invoices', { customerId })]
      const foreign = await batch(items, {}, { token: south })
      assert.deepEqual([foreign.statusCode, foreign.json().errors[0].field], [422, 'items.1.body.customerId'])
    })

    it('422 or 409 if a hook rejects the third item, 500 if the hook throws; nothing in the batch is stored', async () => {
      const items = (text: string) => [
        valid(),
        post('invoices', { customerId: ref('0.id') }),
        post('lines', { invoiceId: ref('1.id'), text, amount: '1' }),
        valid(),
      ]
      await refused(items('refused'), [422, 'VALIDATION_ERROR', 'items.2.body.text', /^is refused$/])
      await refused(items('conflict'), [409, 'STATE_CONFLICT', 'items.2', /^There is a conflict$/])
      const before = await counts()
      assert.equal((await batch(items('broken'))).statusCode, 500)
      assert.match(String(service.faults.splice(0)[0]), /creating of \/lines threw an error/)
      assert.deepEqual(await counts(), before)
    })

    it('422 naming every invalid field of the body, 400 for missing fields and wrong types', async () => {
      const { id } = await invoice()
      const line = (more: object) => post('lines', { invoiceId: id, text: 'x', amount: '1', ...more })
      const both = await refused(
        [valid(), line({ text: '', amount: '1.001' })],
        [...([422, 'VALIDATION_ERROR', 'items.1.body.text'] as const)],
      )
      assert.deepEqual(
        both.json().errors.map(({ field }: { field: string }) => field),
        ['items.1.body.text', 'items.1.body.amount'],
      )
      await refused([line({ text: 7 })], [400, 'INVALID_INPUT', 'items.0.body.text'])
      await refused([post('lines', { invoiceId: id })], [400, 'MISSING_REQUIRED_FIELD', 'items.0.body.text'])
      await refused([line({ invoiceId: 999_999 })], [422, 'VALIDATION_ERROR', 'items.0.body.invoiceId'])
      const change = { method: 'PATCH', collection: 'invoices', id, body: { reference: 'new' } }
      await refused([change], [422, 'VALIDATION_ERROR', 'items.0.body.reference', /cannot be changed/])
      const digits =
        '{"items":[{"method":"POST","collection":"lines","body":{"invoiceId":1,"text":"x","amount":1234567890.123456}}]}'
      const headers = { 'content-type': 'application/json' }
      const long = await send({ method: 'POST', url: '/v2/api/batch', payload: digits, headers })
      assert.deepEqual([long.statusCode, long.json().errors[0].field], [422, 'items.0.body.amount'])
    })

    it('400 with handling=strict for members that would be ignored', async () => {
      const strict = { prefer: 'handling=strict' }
      await refused([valid(), { ...valid(), at: 1 }], [400, 'INVALID_INPUT', 'items.1.at'], strict)
      const odd = post('customers', customer({ colour: 'red', id: ref('0.id') }))
      const response = await refused([valid(), odd], [400, 'INVALID_INPUT', 'items.1.body.colour'], strict)
      assert.deepEqual(response.json().errors[1], { field: 'items.1.body.id', message: 'is read-only' })
      assert.equal(
        (await batch([valid(), post('customers', customer({ name: ref('0.name') }))], strict)).statusCode,
        200,
      )
    })

    it('413 for a body that is too large, 400 for too many members, 415 for another media type', async () => {
      const large = post('customers', customer({ name: 'x'.repeat(1_100_000) }))
      assert.equal((await batch([large])).statusCode, 413)
      const many = Object.fromEntries(Array.from({ length: 10_001 }, (_, at) => [`m${at}`, at]))
      const response = await batch([post('customers', many)])
      assert.deepEqual([response.statusCode, response.json().errorCode], [400, 'INVALID_INPUT'])
      const headers = { 'content-type': 'text/plain' }
      assert.equal((await send({ method: 'POST', url: '/v2/api/batch', payload: 'x', headers })).statusCode, 415)
    })

    it('409 with the stored response for a repeated Idempotency-Key', async () => {
      const twice = valid()
      const headers = { 'idempotency-key': 'batch-duplicate' }
      await refused([twice, twice], [409, 'DUPLICATE_RESOURCE', 'items.1.body.tenant'], headers)
      const again = await refused([twice, twice], [409, 'DUPLICATE_RESOURCE', 'items.1.body.tenant'], headers)
      assert.equal(again.headers['idempotent-replayed'], 'true')
    })

    it('uses the version’s field names in errors', async () => {
      const twice = { clientId: ref('0.id'), number: 'N-1' }
      const items = [valid(), post('invoices', twice), post('invoices', twice)]
      const before = await counts()
      const response = await send({ method: 'POST', url: '/v1/api/batch', payload: { items } })
      assert.deepEqual([response.statusCode, response.json().errors[0].field], [409, 'items.2.body.number'])
      assert.deepEqual(await counts(), before)
    })
  })

  describe('POST /api/batch where If-Match is required', () => {
    const service = batchServiceOn(engine, { requireIfMatch: true })
    it('428 for an item that changes or deletes a row without `ifMatch`', async () => {
      const { id } = await service.api.invoice()
      for (const item of [{ method: 'DELETE' }, { method: 'PATCH', body: { note: 'x' } }]) {
        const response = await service.api.batch([{ ...item, collection: 'invoices', id }])
        assert.deepEqual([response.statusCode, response.json().errors[0].field], [428, 'items.0'])
      }
    })
  })
})
