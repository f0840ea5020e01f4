import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { plinth, Ref, Title, Type } from '../../../src/plinth.ts'
import { appOn, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const { collection, service } = plinth({ claims: ({ client }) => ({ tenant: client.id }) })
const customers = collection({
  path: '/customers',
  noun: 'customer',
  body: Type.Object({ tenant: Title, name: Title }),
  access: (caller) => ({ tenant: caller.claims.tenant }),
})
const visits = collection({
  path: '/visits',
  noun: 'visit',
  body: Type.Object({ customerId: Type.Optional(Ref(customers)) }),
})
const definition = service({ resources: [customers, visits] })
const scopes = 'customers:read customers:write visits:read visits:write'

forEachEngine((engine) => {
  describe('cached pages with expanded rows', () => {
    const app = appOn(engine, { prefixes: [''], definition })
    const send = (client: string, method: 'GET' | 'POST' | 'PATCH', url: string, payload?: object) =>
      app.send({ method, url, token: token(scopes, client), ...(payload && { payload }) })
    const names = async (client: string, scope = scopes) => {
      const response = await app.send({ url: '/visits?expand=customer', token: token(scope, client) })
      if (response.statusCode !== 200) return response.statusCode
      return response.json().map(({ customer }: { customer: { name: string } | null }) => customer?.name)
    }
    const ids: Record<string, number> = {}
    before(async () => {
      for (const tenant of ['north', 'south']) {
        const { id } = (await send(tenant, 'POST', '/customers', { tenant, name: tenant })).json()
        ids[tenant] = id
        await send(tenant, 'POST', '/visits', { customerId: id })
      }
    })

    it('200 with the related rows that each caller can read, when callers alternate on the same URL', async () => {
      for (let round = 0; round < 3; round++) {
        assert.deepEqual(await names('north'), ['north', undefined])
        assert.deepEqual(await names('south'), [undefined, 'south'])
        assert.deepEqual(await names('other'), [undefined, undefined])
      }
    })

    it('403 without the scope for the related rows, even after the page was read with that scope', async () => {
      assert.deepEqual(await names('north'), ['north', undefined])
      assert.equal(await names('north', 'visits:read'), 403)
    })

    it('200 with the current related row after a change, although the rows of the page are unchanged', async () => {
      assert.deepEqual(await names('north'), ['north', undefined])
      await send('north', 'PATCH', `/customers/${ids.north}`, { name: 'Changed' })
      assert.deepEqual(await names('north'), ['Changed', undefined])
      await send('north', 'PATCH', `/customers/${ids.north}`, { name: 'north' })
      assert.deepEqual(await names('north'), ['north', undefined])
    })
  })
})
