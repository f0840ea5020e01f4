import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { addUser, openAccount, type Role, setPasswordHash } from '../../src/oauth/users/accounts.ts'
import { action, hooks, Line, plinth, Type } from '../../src/plinth.ts'
import { appOn, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const output = Type.Object({})
const input = Type.Object({ id: Type.Integer(), asCaller: Type.Optional(Type.Boolean()) })

/** Returns a service with actions that write users, and with hooks that return a role. */
function definitionOf() {
  const fields = Type.Object({ tenant: Line(1, 40) })
  const { collection, service, users } = plinth({ users: { fields, roles: ['member', 'auditor'], own: ['tenant'] } })
  const desks = collection({ path: '/desks', noun: 'desk', body: Type.Object({ name: Line(1, 40) }) })
  const writing = (name: string, changes: object) =>
    action(desks, name, {
      ...{ on: 'collection', input, output },
      run: async ({ id, asCaller: isOfCaller }, { update, asCaller }) => {
        await (isOfCaller ? asCaller.update : update)(users, id, changes)
        return {}
      },
    })
  const removing = action(desks, 'remove', {
    ...{ on: 'collection', input, output },
    run: async ({ id, asCaller: isOfCaller }, { remove, asCaller }) => {
      await (isOfCaller ? asCaller.remove : remove)(users, id)
      return {}
    },
  })
  const adding = action(desks, 'add', {
    ...{ on: 'collection', input: Type.Object({ role: Type.Optional(Line(1, 40)) }), output },
    run: async ({ role }, { insert }) => {
      await insert(users, { name: 'New', email: `new-${role}@example.com`, ...(role !== undefined && { role }) })
      return {}
    },
  })
  const promoting = hooks(users, {
    changing: (_before, { name }) => (name === 'Promoted' ? { role: 'auditor' } : undefined),
    creating: ({ name }) => (name === 'Promoted' ? { role: 'auditor' } : undefined),
  })
  return service({
    resources: [users, desks],
    code: {
      ...{ removing, adding, promoting },
      role: writing('role', { role: 'auditor' }),
      tenant: writing('tenant', { tenant: 'north' }),
      rename: writing('rename', { name: 'Renamed' }),
      email: writing('email', { email: 'other@example.com' }),
    },
  })
}

forEachEngine((engine) => {
  describe('users written by actions and hooks', () => {
    const revocations = { count: 0 }
    const app = appOn(engine, { prefixes: [''], definition: definitionOf(), revocations })
    let people = 0
    const account = async (role: Role) => {
      const at = app.clock.now
      return app.db.write(async (tx) => {
        const id = await addUser(tx, 'Somebody', `person${++people}@example.com`, at)
        await openAccount(tx, id, role, at)
        await setPasswordHash(tx, id, 'a hash that is never compared', at)
        return id
      })
    }
    const run = async (name: string, payload: object, scopes = '', subject = 'cli_test') => {
      const sent = { payload, token: token(`desks:write ${scopes}`, 'cli_test', subject) }
      const response = await app.send({ method: 'POST', url: `/desks/${name}`, ...sent })
      return [response.statusCode, response.json().errorCode ?? null, response.json().detail ?? null]
    }
    const userOf = async (id: number) =>
      (await app.send({ url: `/users/${id}`, scopes: 'users:read users:read:full' })).json()
    const audited = async (id: number) => {
      const entries = app.db.read
        .selectFrom('auditEntries')
        .select(['event', 'clientId'])
        .where('target', '=', String(id))
      return (await entries.execute()).filter(({ event }) => event === 'user.updated').map(({ clientId }) => clientId)
    }

    it('200 when an action renames an ordinary user, even if the caller has no scope for users', async () => {
      const id = await account('user')
      assert.deepEqual(await run('rename', { id }), [200, null, null])
      assert.equal((await userOf(id)).name, 'Renamed')
    })

    it('403 when an action writes a role or an added field without the admin scope; 200 with the scope, and an audit entry', async () => {
      const id = await account('user')
      const refused = [403, 'PERMISSION_DENIED', 'role can only be written with the scope admin']
      assert.deepEqual(await run('role', { id }), refused)
      assert.deepEqual(await run('role', { id, asCaller: true }, 'users:write users:read:full'), refused)
      assert.deepEqual((await run('tenant', { id }))[0], 403)
      assert.deepEqual((await run('add', { role: 'member' }))[0], 403)
      assert.deepEqual([(await userOf(id)).role, await audited(id)], [undefined, []])
      assert.deepEqual(await run('role', { id }, 'admin'), [200, null, null])
      assert.deepEqual([(await userOf(id)).role, await audited(id)], ['auditor', ['cli_test']])
    })

    it('200 when the caller may write the field and is the changed user', async () => {
      const id = await account('user')
      assert.deepEqual((await run('tenant', { id }, '', String(id)))[0], 200)
      assert.equal((await userOf(id)).tenant, 'north')
    })

    it('403 for changing the address of an administrator or deleting an administrator without the admin scope', async () => {
      const [id] = [await account('admin'), await account('admin')]
      const address = 'Changing the e-mail address of an administrator needs an access token with the scope admin'
      assert.deepEqual(await run('email', { id }), [403, 'ACCESS_DENIED', address])
      assert.deepEqual((await run('remove', { id })).slice(0, 2), [403, 'ACCESS_DENIED'])
      assert.equal((await userOf(id)).id, id)
    })

    it('deletes the invitation to the old address when an action changes the address', async () => {
      const id = await account('user')
      const invited = await app.send({ method: 'POST', url: `/api/users/${id}/invitation`, scopes: 'admin' })
      assert.equal(invited.statusCode, 201, invited.body)
      assert.deepEqual((await run('email', { id }))[0], 200)
      const left = app.db.read.selectFrom('invitations').select('userId').where('userId', '=', id)
      assert.deepEqual(await left.execute(), [])
    })

    it('409 LAST_ADMINISTRATOR for deleting the last administrator; only deletions that succeed revoke tokens', async () => {
      const admins = app.db.read.selectFrom('accounts').select('userId').where('role', '=', 'admin')
      const ids = (await admins.execute()).map(({ userId }) => userId)
      const [last, ...others] = [await account('admin'), ...ids]
      const before = revocations.count
      for (const id of others) assert.deepEqual(await run('remove', { id }, 'admin'), [200, null, null])
      assert.equal(revocations.count, before + others.length)
      assert.deepEqual((await run('remove', { id: last }, 'admin')).slice(0, 2), [409, 'LAST_ADMINISTRATOR'])
      assert.equal(revocations.count, before + others.length)
      assert.equal((await userOf(last)).id, last)
    })

    it('with asCaller: 403 for deleting a user without users:read:full, 404 for renaming an unreadable user', async () => {
      const id = await account('user')
      const refused = await run('remove', { id, asCaller: true }, 'users:write', String(id))
      assert.deepEqual(refused.slice(0, 2), [403, 'ACCESS_DENIED'])
      const unseen = await run('rename', { id, asCaller: true }, 'users:write')
      assert.deepEqual(unseen.slice(0, 2), [404, 'RESOURCE_NOT_FOUND'])
      const rights = 'users:write users:read:full'
      assert.deepEqual(await run('remove', { id, asCaller: true }, rights), [200, null, null])
    })

    it('500 if a hook returns a role', async () => {
      const payload = { name: 'Promoted', email: 'promoted@example.com' }
      const scopes = 'users:write users:read:full admin'
      assert.equal((await app.send({ method: 'POST', url: '/users', payload, scopes })).statusCode, 500)
      const id = await account('user')
      assert.equal((await app.send({ method: 'PUT', url: `/users/${id}`, payload, scopes })).statusCode, 500)
      assert.match(
        String(app.faults.splice(0)),
        /creating of \/users cannot return role.*changing of \/users cannot return role/s,
      )
    })
  })
})
