import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { action, event, hooks, Line, plinth, refuse, Type, view } from '../../src/plinth.ts'
import { appOn, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const scopes = 'invoices:read invoices:write webhooks:read webhooks:write'

function definitionOf() {
  const { collection, service } = plinth()
  const invoices = collection({
    path: '/invoices',
    noun: 'invoice',
    body: Type.Object({
      reference: Line(1, 20),
      status: Type.Enum(['draft', 'sent']),
      owner: Type.Optional(Line(1, 40)),
    }),
    defaults: { status: 'draft' },
    access: { read: () => true, write: (caller) => ({ createdBy: caller.id }) },
  })
  const sent = event(invoices, 'sent', Type.Object({ message: Type.String() }))
  const changes = hooks(invoices, {
    changed: (before, after, { emit }) => {
      if (before.status !== after.status) emit(sent, after, { message: after.reference })
    },
  })
  const send = action(invoices, 'send', {
    input: Type.Object({ message: Type.Optional(Line(1, 40)) }),
    when: { status: 'draft' },
    run: async (invoice, { message }, { update }) => {
      if (message === 'no') throw refuse('reference', 'is not wanted')
      if (message === 'conflict') throw refuse.conflict('Another one is being sent')
      if (message === 'fail') throw new Error('the author failed')
      await update(invoices, invoice.id, { status: 'sent' })
    },
  })
  const total = action(invoices, 'count-drafts', {
    on: 'collection',
    output: Type.Object({ drafts: Type.Integer() }),
    run: async (_input, { count }) => ({ drafts: await count(invoices, { status: 'draft' }) }),
  })
  const invoicesV1 = view(invoices, { rename: { reference: 'number' } })
  const versions = { v1: [invoicesV1], v2: [invoices] } as const
  return service({ resources: [invoices], versions, code: { sent, changes, send, total } })
}

forEachEngine((engine) => {
  describe('actions', () => {
    const app = appOn(engine, { definition: definitionOf() })
    const post = (url: string, payload?: object, more: { headers?: Record<string, string>; token?: string } = {}) =>
      app.send({ method: 'POST', url, scopes, ...(payload && { payload }), ...more })
    const draft = async () => (await post('/v2/invoices', { reference: 'R-1' })).json().id as number

    it('200 with the row that the action has changed, and its new ETag', async () => {
      const response = await post(`/v2/invoices/${await draft()}/send`)
      assert.deepEqual([response.statusCode, response.json().status], [200, 'sent'], response.body)
      assert.equal(response.headers.etag, '"2"')
    })

    it('409 STATE_CONFLICT for a row that does not meet the condition in `when`', async () => {
      const id = await draft()
      await post(`/v2/invoices/${id}/send`)
      const again = await post(`/v2/invoices/${id}/send`)
      assert.deepEqual([again.statusCode, again.json().errorCode], [409, 'STATE_CONFLICT'])
    })

    it('404 for an unknown row, 403 without write access, 412 for a mismatched ETag, 422 for invalid input', async () => {
      const id = await draft()
      assert.equal((await post('/v2/invoices/999999/send')).statusCode, 404)
      const other = await post(`/v2/invoices/${id}/send`, {}, { token: token(scopes, 'cli_other') })
      assert.deepEqual([other.statusCode, other.json().errorCode], [403, 'PERMISSION_DENIED'])
      assert.equal((await post(`/v2/invoices/${id}/send`, {}, { headers: { 'if-match': '"7"' } })).statusCode, 412)
      assert.equal((await post(`/v2/invoices/${id}/send`, { message: '' })).statusCode, 422)
      const scopeless = await post(`/v2/invoices/${id}/send`, {}, { token: token('invoices:read') })
      assert.equal(scopeless.statusCode, 403)
      assert.equal((await app.send({ url: `/v2/invoices/${id}`, scopes })).json().status, 'draft')
    })

    it('422 with the refused field’s name in the requested version, 409 with the message of refuse.conflict()', async () => {
      const id = await draft()
      for (const [version, field] of [
        ['v2', 'reference'],
        ['v1', 'number'],
      ] as const) {
        const refused = await post(`/${version}/invoices/${id}/send`, { message: 'no' })
        assert.equal(refused.statusCode, 422, refused.body)
        const { errors, details } = refused.json()
        assert.equal((errors ?? details)[0].field, field)
      }
      const conflict = await post(`/v2/invoices/${id}/send`, { message: 'conflict' })
      assert.deepEqual([conflict.statusCode, conflict.json().detail], [409, 'Another one is being sent'])
      const shown = await post(`/v1/invoices/${id}/send`)
      assert.deepEqual([shown.statusCode, shown.json().number], [200, 'R-1'])
    })

    it('500 if the action throws; the row is unchanged', async () => {
      const id = await draft()
      assert.equal((await post(`/v2/invoices/${id}/send`, { message: 'fail' })).statusCode, 500)
      assert.match(String((app.faults.splice(0)[0] as Error).message), /action send of \/invoices threw an error/)
      assert.equal((await app.send({ url: `/v2/invoices/${id}`, scopes })).json().status, 'draft')
    })

    it('are not run again for a repeated Idempotency-Key; the response is replayed', async () => {
      const id = await draft()
      const headers = { 'idempotency-key': `send-${id}` }
      const [first, again] = [
        await post(`/v2/invoices/${id}/send`, {}, { headers }),
        await post(`/v2/invoices/${id}/send`, {}, { headers }),
      ]
      assert.deepEqual([first.statusCode, again.statusCode, again.headers['idempotent-replayed']], [200, 200, 'true'])
      assert.deepEqual(again.json(), first.json())
    })

    it('store the event that a hook emits when they change a row', async () => {
      const callbackUrl = 'http://127.0.0.1:9/'
      assert.equal((await post('/api/webhooks', { event: 'invoice.sent', callbackUrl })).statusCode, 201)
      await post(`/v2/invoices/${await draft()}/send`)
      const rows = await app.db.read.selectFrom('events').select(['type', 'body', 'facts']).execute()
      assert.deepEqual(
        rows.map(({ type, body }) => [type, JSON.parse(body)]),
        [['invoice.sent', { message: 'R-1' }]],
      )
      assert.equal(JSON.parse(rows[0]?.facts ?? '{}').status, 'sent')
    })

    it('200 with the output of an action on the collection', async () => {
      await draft()
      const response = await post('/v2/invoices/count-drafts')
      assert.equal(response.statusCode, 200, response.body)
      assert.ok(response.json().drafts > 0)
    })

    it('are documented with their statuses and events', async () => {
      const { paths, webhooks } = (await app.send({ url: '/v2/openapi.json' })).json()
      const operation = paths['/invoices/{id}/send'].post
      assert.equal(operation.operationId, 'sendInvoice')
      for (const status of ['200', '403', '404', '409', '412', '422', '428'])
        assert.ok(operation.responses[status], status)
      assert.ok(Object.keys(webhooks).includes('invoice.sent'))
    })
  })
})
