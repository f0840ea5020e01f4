import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { plinth, Title, Type } from '../../../src/plinth.ts'
import { appOn, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const claims = { fails: false }
const { collection, service } = plinth({
  users: { roles: ['member', 'auditor'] },
  claims: ({ client }) => {
    if (claims.fails) throw new Error('No claims')
    return { tenant: client.labels.tenant }
  },
})
const notes = collection({
  path: '/notes',
  noun: 'note',
  body: Type.Object({ tenant: Type.String({ maxLength: 40 }), owner: Type.String(), text: Title }),
  set: { tenant: ({ caller }) => caller.claims.tenant },
  defaults: { owner: ({ caller }) => caller.id },
  access: (caller) => ({ tenant: caller.claims.tenant }),
})
const numbered = collection({
  path: '/orders',
  noun: 'order',
  body: Type.Object({ reference: Type.String(), text: Title }),
  set: { reference: async ({ caller, next }) => `${caller.claims.tenant}-${await next(`${caller.claims.tenant}`)}` },
})
const definition = service({ resources: [notes, numbered] })
const scopes = 'notes:read notes:write orders:read orders:write'

forEachEngine((engine) => {
  describe('values that `set` and `defaults` take from the caller', () => {
    const app = appOn(engine, { prefixes: [''], definition })
    const client = async (labels: object) => {
      const payload = { name: 'Import', scopes: ['notes:read'], grants: ['client_credentials'], labels }
      return (await app.send({ method: 'POST', url: '/api/clients', payload, scopes: 'admin' })).json().id as string
    }
    const create = (id: string, payload: object, url = '/notes') =>
      app.send({ method: 'POST', url, payload, token: token(scopes, id) })

    it("201 with the caller's tenant, regardless of the body", async () => {
      const [north, south] = [await client({ tenant: 'north' }), await client({ tenant: 'south' })]
      const own = (await create(north, { text: 'A' })).json()
      assert.deepEqual([own.tenant, own.owner], ['north', `client:${north}`])
      assert.equal((await create(south, { text: 'A', tenant: 'north' })).json().tenant, 'south')
      const { statusCode } = await app.send({ url: `/notes/${own.id}`, token: token(scopes, south) })
      assert.equal(statusCode, 404)
    })

    it('201 with a separate counter for each tenant', async () => {
      const [north, south] = [await client({ tenant: 'north' }), await client({ tenant: 'south' })]
      const references: string[] = []
      for (const id of [north, north, south, north]) {
        references.push((await create(id, { text: 'A' }, '/orders')).json().reference)
      }
      assert.deepEqual(references, ['north-1', 'north-2', 'south-1', 'north-3'])
    })

    it('403 for a caller without a tenant, and 500 if the claims function throws; nothing is created', async () => {
      const [none, north] = [await client({}), await client({ tenant: 'north' })]
      const before = (await app.send({ url: '/notes', token: token(scopes, north) })).json()
      const refused = await create(none, { text: 'A', tenant: 'north' })
      assert.deepEqual([refused.statusCode, refused.json().errorCode], [403, 'PERMISSION_DENIED'])
      claims.fails = true
      const failed = await create(north, { text: 'A' })
      claims.fails = false
      assert.equal(failed.statusCode, 500)
      assert.match(String(app.faults.splice(0)), /No claims/)
      assert.deepEqual((await app.send({ url: '/notes', token: token(scopes, north) })).json(), before)
    })
  })
})

it('functions in `set` are type-checked: they can use only declared claims and roles', () => {
  const body = Type.Object({ tenant: Type.String(), text: Title })
  collection({
    path: '/typed',
    noun: 'typed',
    body,
    // @ts-expect-error: there is no claim `tennant`
    set: { tenant: ({ caller }) => caller.claims.tennant },
  })
  collection({
    path: '/typed',
    noun: 'typed',
    body,
    // @ts-expect-error: there is no role `auditr`
    set: { tenant: ({ caller }) => (caller.is('auditr') ? 'north' : 'south') },
  })
  assert.ok(body)
})
