import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { collection, Line, plinth, Type } from '../../../src/plinth.ts'
import { appOn, everyScope, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { post, ref } from './service.ts'

forEachEngine((engine) => {
  describe('POST /api/batch with built-in resources, which have no hooks', () => {
    const revocations = { count: 0 }
    const service = appOn(engine, { revocations })
    const batch = (items: unknown[], bearer = token(everyScope)) =>
      service.send({ method: 'POST', url: '/api/batch', payload: { items }, token: bearer })
    const user = (email: string) => post('users', { name: 'Ada', email, phone: '+1 555' })

    it('200 with the fields of each row that the caller may see', async () => {
      const response = await batch([
        user('shown@example.com'),
        post('books', { title: 'Notes', author: ref('0.name') }),
        post('products', { name: 'Lamp', price: 1.5 }),
        { method: 'PUT', collection: 'products', id: ref('2.id'), ifMatch: '"1"', body: { name: 'Torch', price: 2 } },
      ])
      assert.equal(response.statusCode, 200, response.body)
      const [ada, book, product, changed] = response.json().items
      assert.deepEqual([ada.body.phone, book.body.author, product.body], [undefined, 'Ada', changed.body])
      for (const { location, etag, body } of [ada, book, product]) {
        const single = await service.send({ url: location })
        assert.deepEqual([single.json(), single.headers.etag], [body, etag])
      }
      const reference = { name: ref('0.phone'), price: 1 }
      const hidden = await batch([user('hidden@example.com'), post('products', reference)])
      assert.deepEqual([hidden.statusCode, hidden.json().errors[0].field], [422, 'items.1.body.name'])
    })

    it('200 for the deletion of a user; cached tokens are then verified again', async () => {
      const { id } = (await batch([user('gone@example.com')])).json().items[0].body
      const before = revocations.count
      assert.equal((await batch([post('products', { name: 'Pen', price: 1 })])).statusCode, 200)
      assert.equal(revocations.count, before)
      assert.equal((await batch([{ method: 'DELETE', collection: 'users', id }])).statusCode, 200)
      assert.ok(revocations.count > before)
    })

    it('201 for restoring a row that a batch deleted', async () => {
      const { id } = (await batch([post('products', { name: 'Kept', price: 1 })])).json().items[0].body
      await batch([{ method: 'DELETE', collection: 'products', id }])
      const restored = await service.send({ method: 'POST', url: `/api/deleted/products/${id}/restore` })
      assert.deepEqual([restored.statusCode, restored.json().name], [201, 'Kept'])
    })

    it('412 for an If-Match header on the batch request', async () => {
      const headers = { 'if-match': '"1"' }
      const payload = { items: [user('pre@example.com')] }
      const response = await service.send({ method: 'POST', url: '/api/batch', payload, headers })
      assert.equal(response.statusCode, 412)
    })
  })

  describe('POST /api/batch with users that have extra fields', () => {
    const { service: serve } = plinth({
      users: {
        fields: Type.Object({ nickname: Type.Optional(Line(1, 40)) }),
        roles: ['member', 'auditor'],
        own: ['nickname'],
      },
    })
    const notes = collection({ path: '/notes', noun: 'note', body: Type.Object({ text: Line(1, 40) }) })
    const service = appOn(engine, { definition: serve({ resources: [notes] }) })
    const batch = (items: unknown[], bearer: string) =>
      service.send({ method: 'POST', url: '/v2/api/batch', payload: { items }, token: bearer })
    const change = (id: unknown, body: object) => ({ method: 'PATCH', collection: 'users', id, body })

    it('200 and 403 as for single requests, with an audit entry for a role change', async () => {
      const admin = token('users:read users:read:full users:write admin', 'cli_admin')
      const made = await batch(
        ['one', 'two'].map((name) => post('users', { name, email: `${name}@example.com` })),
        admin,
      )
      const [one, two] = made.json().items.map(({ body }: { body: { id: number } }) => body.id)
      const asOne = token('users:read users:write:own', 'cli_app', String(one))
      const own = await batch([change(one, { nickname: 'first' })], asOne)
      assert.deepEqual([own.statusCode, own.json().items?.[0].body.nickname], [200, 'first'], own.body)
      const foreign = await batch([change(one, { nickname: 'second' }), change(two, { nickname: 'x' })], asOne)
      assert.match(foreign.json().errors[0].field, /^items\.1/)
      const raised = await batch([change(one, { role: 'auditor' })], asOne)
      assert.deepEqual([raised.statusCode, raised.json().errors[0].field], [403, 'items.0.body.role'])
      assert.equal((await batch([post('users', { name: 'x', email: 'x@example.com' })], asOne)).statusCode, 403)
      assert.equal((await batch([change(two, { role: 'auditor' })], admin)).statusCode, 200)
      const { nickname } = (await service.send({ url: `/v2/users/${one}`, token: admin })).json()
      assert.equal(nickname, 'first')
      const entries = await service.db.read.selectFrom('auditEntries').select(['event', 'target', 'details']).execute()
      assert.deepEqual(
        entries.filter(({ target }) => target === String(two)).map(({ event, details }) => [event, details]),
        [['user.updated', '{"fields":["role"],"role":"auditor"}']],
      )
    })
  })
})
