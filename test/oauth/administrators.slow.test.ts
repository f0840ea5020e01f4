import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { LightMyRequestResponse as Response } from 'fastify'
import { addUser, openAccount, type Role, setPasswordHash } from '../../src/oauth/users/accounts.ts'
import { appOn } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const writer = 'users:read users:write'
const administrator = `${writer} admin`

forEachEngine((engine) => {
  const service = appOn(engine)
  let people = 0
  /** Creates a user with this role. If `invited`, the account has no password. */
  const account = async (role: Role, { invited = false } = {}) => {
    const email = `person${++people}@example.com`
    const id = await service.db.write(async (tx) => {
      const userId = await addUser(tx, 'Somebody', email, service.clock.now)
      await openAccount(tx, userId, role, service.clock.now)
      if (!invited) await setPasswordHash(tx, userId, 'a hash that is never compared', service.clock.now)
      return userId
    })
    return { id, email }
  }
  /** Demotes every existing administrator. */
  const demoteAll = () => service.db.write((tx) => tx.updateTable('accounts').set({ role: 'user' }).execute())
  const roles = () =>
    service.db.read
      .selectFrom('accounts')
      .select('userId')
      .where('role', '=', 'admin')
      .where('passwordHash', 'is not', null)
  const ask = (method: string, url: string, scopes: string, payload?: object, headers: Record<string, string> = {}) =>
    service.send({ method: method as 'PUT', url, scopes, headers, ...(payload && { payload }) })
  const demote = (id: number) => ask('POST', `/api/users/${id}/invitation`, 'admin', { role: 'user' })
  const outcome = (response: Response) => [
    response.statusCode,
    response.statusCode < 400 ? '' : response.json().errorCode,
  ]

  describe('changing or deleting an administrator', () => {
    const changes: [what: string, method: string, body: object | undefined, detail: RegExp][] = [
      [
        'PUT with a new address',
        'PUT',
        { name: 'Somebody', email: 'mine@example.com' },
        /^Changing the e-mail address of an admin.* admin$/,
      ],
      [
        'PATCH with a new address',
        'PATCH',
        { email: 'mine@example.com' },
        /^Changing the e-mail address of an admin.* admin$/,
      ],
      ['DELETE', 'DELETE', undefined, /^Deleting an administrator needs an access token with the scope admin$/],
    ]
    for (const [what, method, body, detail] of changes) {
      for (const invited of [false, true]) {
        it(`403 without the admin scope for ${what} (${invited ? 'invited' : 'active'} account); nothing changes`, async () => {
          const { id, email } = await account('admin', { invited })
          const response = await ask(method, `/users/${id}`, writer, body)
          assert.deepEqual(outcome(response), [403, 'ACCESS_DENIED'])
          assert.match(response.json().detail, detail)
          assert.match(String(response.headers['www-authenticate']), /error="insufficient_scope", scope="admin"$/)
          const { statusCode, headers, ...left } = await ask('GET', `/v1/users/${id}`, 'users:read users:read:full')
          assert.deepEqual([statusCode, headers.etag, left.json().email], [200, '"1"', email])
        })
      }

      it(`403 without the admin scope for ${what}, even if the tag is outdated; 412 with the scope`, async () => {
        const { id } = await account('admin')
        const outdated = { 'if-match': '"7"' }
        assert.equal((await ask(method, `/users/${id}`, writer, body, outdated)).statusCode, 403)
        assert.equal((await ask(method, `/users/${id}`, administrator, body, outdated)).statusCode, 412)
      })

      it(`2xx with users:write and admin for ${what}; users:write is enough for any other user`, async () => {
        await account('admin')
        for (const [role, scopes] of [
          ['admin', administrator],
          ['user', writer],
        ] as const) {
          const { id } = await account(role)
          const response = await ask(method, `/users/${id}`, scopes, body && { ...body, email: `new${id}@example.com` })
          assert.equal(response.statusCode, method === 'DELETE' ? 204 : 200, response.body)
        }
      })
    }

    it('200 without the admin scope for other changes: PATCH with a new name, PUT with the same address', async () => {
      const { id, email } = await account('admin')
      assert.equal((await ask('PATCH', `/users/${id}`, writer, { name: 'New' })).statusCode, 200)
      const whole = { name: 'Newer', email: ` ${email} `, phone: '+1' }
      assert.equal((await ask('PUT', `/users/${id}`, writer, whole)).statusCode, 200)
    })

    it('403 with only the admin scope, which does not include users:write', async () => {
      const { id } = await account('admin')
      assert.deepEqual(outcome(await ask('DELETE', `/users/${id}`, 'admin')), [403, 'ACCESS_DENIED'])
    })

    it('the 403 response is audited', async () => {
      const { id } = await account('admin')
      await ask('DELETE', `/v2/users/${id}`, writer)
      await service.audit.flush()
      const denied = service.db.read.selectFrom('auditEntries').select('target').where('event', '=', 'access.denied')
      assert.ok((await denied.execute()).some(({ target }) => target === 'DELETE /v2/users/:id'))
    })
  })

  describe('the last administrator who can log in', () => {
    const last = async () => {
      await demoteAll()
      return account('admin')
    }

    it('409 LAST_ADMINISTRATOR for DELETE, but 412 if the tag is outdated; the account is unchanged', async () => {
      const { id } = await last()
      const outdated = { 'if-match': '"7"' }
      assert.equal((await ask('DELETE', `/users/${id}`, administrator, undefined, outdated)).statusCode, 412)
      const response = await ask('DELETE', `/users/${id}`, administrator)
      assert.deepEqual(outcome(response), [409, 'LAST_ADMINISTRATOR'])
      const why = 'This is the last administrator who can log in: another one must have a password first'
      assert.equal(response.json().detail, why)
      assert.deepEqual(await roles().execute(), [{ userId: id }])
    })

    it('409 LAST_ADMINISTRATOR for a role change; no invitation is created', async () => {
      const { id } = await last()
      assert.deepEqual(outcome(await demote(id)), [409, 'LAST_ADMINISTRATOR'])
      assert.deepEqual(await roles().execute(), [{ userId: id }])
      const invited = service.db.read.selectFrom('invitations').select('userId').where('userId', '=', id)
      assert.deepEqual(await invited.execute(), [])
    })

    it('409 for DELETE if no other administrator has a password; one without a password can be demoted and deleted', async () => {
      const { id } = await last()
      const waiting = await account('admin', { invited: true })
      assert.equal((await ask('DELETE', `/users/${id}`, administrator)).statusCode, 409)
      assert.equal((await demote(waiting.id)).statusCode, 201)
      assert.equal((await ask('DELETE', `/users/${waiting.id}`, administrator)).statusCode, 204)
    })

    it('204 for DELETE and 201 for a role change if another administrator remains', async () => {
      const [one, other] = [await last(), await account('admin')]
      const third = await account('admin')
      assert.equal((await ask('DELETE', `/users/${one.id}`, administrator)).statusCode, 204)
      assert.equal((await demote(other.id)).statusCode, 201)
      assert.deepEqual(await roles().execute(), [{ userId: third.id }])
    })

    it('200 for a new e-mail address', async () => {
      const { id } = await last()
      const response = await ask('PATCH', `/users/${id}`, administrator, { email: `moved${id}@example.com` })
      assert.equal(response.statusCode, 200)
    })

    it('remains if the last two administrators are deleted or demoted concurrently', async () => {
      const remove = (id: number) => ask('DELETE', `/users/${id}`, administrator)
      for (const [first, second] of [
        [remove, remove],
        [remove, demote],
        [demote, demote],
      ] as const) {
        for (let round = 0; round < 8; round++) {
          const [one, other] = [await last(), await account('admin')]
          const responses = await Promise.all([first(one.id), second(other.id)])
          const codes = responses.map(({ statusCode }) => statusCode).sort()
          assert.ok((codes[0] as number) < 300 && codes[1] === 409, String(codes))
          assert.equal((await roles().execute()).length, 1)
        }
      }
    })
  })
})
