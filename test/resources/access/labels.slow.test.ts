import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { collection as plainCollection, service as plainService, plinth, Title, Type } from '../../../src/plinth.ts'
import { appOn, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const { collection, service } = plinth({ claims: ({ client }) => ({ tenant: client.labels.tenant }) })
const notes = collection({
  path: '/notes',
  noun: 'note',
  body: Type.Object({ tenant: Type.String({ maxLength: 40 }), text: Title }),
  access: (caller) => ({ tenant: caller.claims.tenant }),
})
const definition = service({ resources: [notes] })
const scopes = 'notes:read notes:write'

const pages = plainCollection({
  path: '/pages',
  noun: 'page',
  body: Type.Object({ text: Title }),
  access: {
    read: ({ id }) => (id.startsWith('client:all') ? true : { id: Number(id.split('-')[1]) }),
    write: () => true,
  },
})

forEachEngine((engine) => {
  describe('an access rule that compares the id', () => {
    const app = appOn(engine, { prefixes: [''], definition: plainService({ resources: [pages] }) })
    const as = (id: string) => ({ token: token('pages:read pages:write', id) })

    it("200 with only the row that has the rule's id; no rows if no row has it or it is outside the column's range", async () => {
      for (const text of ['one', 'two', 'three']) {
        await app.send({ method: 'POST', url: '/pages', payload: { text }, ...as('all') })
      }
      const textsOf = async (id: string, query = '') => {
        const response = await app.send({ url: `/pages${query}`, ...as(id) })
        assert.equal(response.statusCode, 200, response.body)
        return response.json().map(({ text }: { text: string }) => text)
      }
      assert.deepEqual(await textsOf('only-2'), ['two'])
      assert.deepEqual(await textsOf('only-2', '?sort=-createdAt&updatedAfter=2020-01-01'), ['two'])
      for (const id of ['only-4', 'only-2147483648', 'only-99999999999', 'only-0'])
        assert.deepEqual(await textsOf(id), [])
      assert.deepEqual(await textsOf('all'), ['one', 'two', 'three'])
    })
  })

  describe('access rules with claims from client labels', () => {
    const app = appOn(engine, { prefixes: [''], definition })
    const client = async (labels: object) => {
      const payload = { name: 'Import', scopes: ['notes:read'], grants: ['client_credentials'], labels }
      return (await app.send({ method: 'POST', url: '/api/clients', payload, scopes: 'admin' })).json().id as string
    }
    const change = (id: string, labels: object | null) =>
      app.send({ method: 'PATCH', url: `/api/clients/${id}`, payload: { labels }, scopes: 'admin' })
    const as = (id: string, subject?: string) => ({ token: token(scopes, id, subject) })
    const create = (id: string, tenant: string) =>
      app.send({ method: 'POST', url: '/notes', payload: { tenant, text: 'Hello' }, ...as(id) })
    const read = async (id: string, subject?: string) => {
      const response = await app.send({ url: '/notes', ...as(id, subject) })
      return response.json().map(({ tenant }: { tenant: string }) => tenant)
    }

    it('200 with the rows that match the label, whether the client acts for itself or for a user', async () => {
      const [north, south] = [await client({ tenant: 'north' }), await client({ tenant: 'south' })]
      assert.equal((await create(north, 'north')).statusCode, 201)
      assert.equal((await create(south, 'south')).statusCode, 201)
      assert.equal((await create(north, 'south')).statusCode, 403)
      assert.deepEqual(
        [await read(north), await read(south), await read(north, '7')],
        [['north'], ['south'], ['north']],
      )
    })

    it('200 with no rows for a client without the label or for an unregistered client', async () => {
      assert.deepEqual(await read(await client({ region: 'north' })), [])
      assert.deepEqual(await read('https://issuer.example#north'), [])
      assert.equal((await create(await client({}), 'north')).statusCode, 403)
    })

    it('a changed label takes effect after five seconds', async () => {
      const id = await client({ tenant: 'north' })
      await create(id, 'north')
      const before = await read(id)
      assert.ok(before.includes('north'))
      await change(id, null)
      app.clock.now += 4_999
      assert.deepEqual(await read(id), before)
      app.clock.now += 1
      assert.deepEqual(await read(id), [])
      await change(id, { tenant: 'south' })
      app.clock.now += 5_000
      assert.deepEqual(new Set(await read(id)), new Set(['south']))
    })
  })
})
