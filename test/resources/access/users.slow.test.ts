import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { addUser, openAccount } from '../../../src/oauth/users/accounts.ts'
import { Line, plinth, Title, Type } from '../../../src/plinth.ts'
import { appOn, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { fanOutAll } from './fan-out.ts'

const { collection, service } = plinth({
  users: { fields: Type.Object({ tenant: Line(1, 40) }), roles: ['member', 'auditor'] },
  claims: ({ user, client }) => ({ tenant: user?.tenant ?? client.labels.tenant }),
})
const notes = collection({
  path: '/notes',
  noun: 'note',
  body: Type.Object({ tenant: Line(1, 40), text: Title }),
  access: (caller) => caller.is('auditor') || { tenant: caller.claims.tenant },
})
const definition = service({ resources: [notes] })
const scopes = 'users:read notes:read notes:write webhooks:read webhooks:write reports:read reports:write'
const merge = { 'content-type': 'application/merge-patch+json' }

forEachEngine((engine) => {
  describe('events of a service that adds fields to users', () => {
    const app = appOn(engine, { prefixes: [''], definition })
    const tokens = { ada: '', eve: '', client: token(`${scopes} users:read:full`, 'cli_full') }
    type Who = keyof typeof tokens
    const ids: Record<string, number> = {}
    const webhooks = new Map<string, Who>()
    before(async () => {
      for (const who of ['ada', 'eve'] as const) {
        ids[who] = await app.db.write(async (tx) => {
          const id = await addUser(tx, who, `${who}@example.com`, app.clock.now)
          await openAccount(tx, id, 'user', app.clock.now)
          return id
        })
        tokens[who] = token(scopes, 'cli_app', String(ids[who]))
      }
      for (const who of Object.keys(tokens) as Who[]) {
        const payload = { event: '*', callbackUrl: `http://127.0.0.1:9/${who}` }
        const registered = await app.send({ method: 'POST', url: '/api/webhooks', payload, token: tokens[who] })
        assert.equal(registered.statusCode, 201, registered.body)
        webhooks.set(registered.json().id, who)
      }
    })
    /** Returns who receives the pending events, and the field names in the event bodies. Deletes the events. */
    const received = async () => {
      const deliveries = await fanOutAll(app, definition)
      for (const table of ['deliveries', 'events'] as const) await app.db.write((tx) => tx.deleteFrom(table).execute())
      const names = [...new Set(deliveries.flatMap(({ body }) => Object.keys(JSON.parse(body))))].sort()
      return { by: deliveries.map(({ webhookId }) => webhooks.get(String(webhookId))).sort(), names }
    }
    const change = async (who: string, payload: object) => {
      const request = { method: 'PATCH', url: `/users/${ids[who]}`, payload, headers: merge } as const
      const changed = await app.send({ ...request, scopes: 'users:read:full users:read users:write admin' })
      assert.equal(changed.statusCode, 200, changed.body)
      app.clock.now += 5_000
    }

    it('about a user are received by that user and by clients that see all users, without hidden fields', async () => {
      await change('ada', { tenant: 'north', role: 'member', phone: '+44' })
      const names = ['createdAt', 'email', 'id', 'name', 'role', 'tenant', 'updatedAt']
      assert.deepEqual(await received(), { by: ['ada', 'client'], names })
    })

    it('about a tenant’s rows are received by users who join the tenant or get a role that can read all rows', async () => {
      await change('eve', { tenant: 'south' })
      await received()
      const write = () =>
        app.send({ method: 'POST', url: '/notes', payload: { tenant: 'north', text: 'a note' }, token: tokens.ada })
      assert.equal((await write()).statusCode, 201)
      assert.deepEqual((await received()).by, ['ada'])
      await change('eve', { tenant: 'north' })
      await received()
      await write()
      assert.deepEqual((await received()).by, ['ada', 'eve'])
      await change('eve', { tenant: 'south', role: 'auditor' })
      await received()
      await write()
      assert.deepEqual((await received()).by, ['ada', 'eve'])
    })

    it('about a deleted user are received by those who could see the user, except the deleted user', async () => {
      const request = { method: 'DELETE', url: `/users/${ids.eve}`, scopes: 'users:read:full users:read users:write' }
      assert.equal((await app.send(request as never)).statusCode, 204)
      assert.deepEqual(await received(), { by: ['client'], names: ['id'] })
    })
  })
})
