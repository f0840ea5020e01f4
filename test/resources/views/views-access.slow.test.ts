import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { users } from '../../../src/catalog/users.ts'
import { plinth } from '../../../src/definition/plinth.ts'
import { Line } from '../../../src/http/text-rules.ts'
import { Title } from '../../../src/resources/field-types.ts'
import { view } from '../../../src/resources/views/view.ts'
import { appOn, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const { collection, service } = plinth({ claims: ({ client }) => ({ tenant: client.id }) })
const notes = collection({
  path: '/notes',
  noun: 'note',
  body: Type.Object({ tenant: Line(1, 40), state: Line(1, 20), text: Title, secret: Type.Optional(Line(1, 20)) }),
  filters: ['tenant', 'state'],
  access: {
    read: (caller) => ({ tenant: caller.claims.tenant }),
    write: (caller) => ({ tenant: caller.claims.tenant, state: { not: 'closed' } }),
  },
  hides: { fields: ['secret'], unless: ({ scopes }) => scopes.has('notes:read:full') },
  scopes: { 'notes:read:full': 'See secrets' },
})
const notesV1 = view(notes, {
  rename: { state: 'status', text: 'state', secret: 'code' },
  hide: ['tenant'],
  defaults: { tenant: () => 'north' },
})
const usersV1 = view(users, { rename: { email: 'mail', phone: 'mobile' } })
const definition = service({ resources: [notes, users], versions: { v1: [notesV1, usersV1], v2: [notes, users] } })
const scopes = 'notes:read notes:write users:read users:write'

forEachEngine((engine) => {
  describe('a view of a resource with access rules', () => {
    const app = appOn(engine, { definition })
    type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
    const as =
      (client: string, more = '') =>
      (method: Method, url: string, payload?: object) =>
        app.send({ method, url, ...(payload && { payload }), token: token(`${scopes} ${more}`, client) })
    const [north, south] = [as('north'), as('south')]

    it('applies the rules to hidden and renamed fields', async () => {
      const created = await north('POST', '/v1/notes', { status: 'open', state: 'A text' })
      assert.equal(created.statusCode, 201, created.body)
      const item = created.json()
      const { id, createdBy } = item
      assert.equal(createdBy, 'client:north')
      assert.equal((await north('GET', `/v1/notes/${id}`)).json().state, 'A text')
      assert.deepEqual((await north('GET', '/v1/notes')).json(), [item])
      assert.deepEqual((await north('GET', '/v1/notes?status=open')).json(), [item])
      for (const url of [`/v1/notes/${id}`, `/v2/notes/${id}`]) {
        assert.equal((await south('GET', url)).statusCode, 404)
        assert.equal((await south('PATCH', url, { text: 'x' })).statusCode, 404)
        assert.equal((await south('DELETE', url)).statusCode, 404)
      }
      assert.deepEqual((await south('GET', '/v1/notes')).json(), [])
      const foreign = await south('POST', '/v1/notes', { status: 'open', state: 'for north' })
      assert.equal(foreign.statusCode, 403, foreign.body)
      const closing = await north('PATCH', `/v1/notes/${id}`, { status: 'closed' })
      assert.equal(closing.statusCode, 403, closing.body)
      const put = await north('PUT', `/v1/notes/${id}`, { status: 'late', state: 'B' })
      assert.equal(put.statusCode, 200, put.body)
      const { tenant, state, text } = (await north('GET', `/v2/notes/${id}`)).json()
      assert.deepEqual([tenant, state, text], ['north', 'late', 'B'])
      assert.equal((await north('DELETE', `/v1/notes/${id}`)).statusCode, 204)
    })

    it('keeps a hidden field’s value in a PUT by a caller who cannot see it, and tags the reduced representation separately', async () => {
      const full = as('north', 'notes:read:full')
      const created = await full('POST', '/v1/notes', { status: 'open', state: 'A', code: '42' })
      const { id } = created.json()
      assert.equal(created.json().code, '42')
      const reduced = await north('GET', `/v1/notes/${id}`)
      assert.equal('code' in reduced.json(), false)
      assert.match(String(reduced.headers.etag), /^"1\.[0-9a-f]{8}\.reduced"$/)
      const headers = { 'if-match': String(reduced.headers.etag) }
      const payload = { status: 'open', state: 'B' }
      const put = await app.send({
        ...{ method: 'PUT', url: `/v1/notes/${id}`, payload, headers },
        token: token(scopes, 'north'),
      })
      assert.equal(put.statusCode, 200, put.body)
      assert.equal((await full('GET', `/v1/notes/${id}`)).json().code, '42')
    })

    it('lets administrators change an e-mail address in a renamed field', async () => {
      const admin = as('north', 'admin')
      const created = await admin('POST', '/v1/users', { name: 'Ada', mail: 'ada@example.com' })
      assert.equal(created.statusCode, 201, created.body)
      const { id } = created.json()
      const changed = await admin('PATCH', `/v1/users/${id}`, { mail: 'ada@example.org' })
      assert.deepEqual([changed.statusCode, changed.json().mail], [200, 'ada@example.org'])
      assert.equal((await admin('GET', `/v2/users/${id}`)).json().email, 'ada@example.org')
    })
  })
})
