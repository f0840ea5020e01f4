import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { plinth, Title, Type } from '../../../src/plinth.ts'
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

forEachEngine((engine) => {
  describe('access rules with claims from the labels of clients', () => {
    const app = appOn(engine, { definition })
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

    it('200 with the rows of the label, whether the client acts for itself or for a user', async () => {
      const [north, south] = [await client({ tenant: 'north' }), await client({ tenant: 'south' })]
      assert.equal((await create(north, 'north')).statusCode, 201)
      assert.equal((await create(south, 'south')).statusCode, 201)
      assert.equal((await create(north, 'south')).statusCode, 403)
      assert.deepEqual(
        [await read(north), await read(south), await read(north, '7')],
        [['north'], ['south'], ['north']],
      )
    })

    it('200 without rows for a client without the label, and for one that is not registered', async () => {
      assert.deepEqual(await read(await client({ region: 'north' })), [])
      assert.deepEqual(await read('https://issuer.example#north'), [])
      assert.equal((await create(await client({}), 'north')).statusCode, 403)
    })

    it('200 by the changed label five seconds later', async () => {
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
