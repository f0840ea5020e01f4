import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { addUser, openAccount, type Role, setPasswordHash } from '../../src/oauth/users/accounts.ts'
import { requestCounter } from '../../src/storage/request-counts.ts'
import { appOn } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

forEachEngine((engine) => {
  const service = appOn(engine, { prefixes: [''] })
  let people = 0
  const user = async (name = 'Somebody') => {
    const email = `person${++people}@example.com`
    return { email, id: await service.db.write((tx) => addUser(tx, name, email, service.clock.now)) }
  }
  /** Creates a user with an account; if `invited`, without a password. */
  const account = async (role: Role = 'user', { invited = false, name = 'Somebody' } = {}) => {
    const { id, email } = await user(name)
    await service.db.write(async (tx) => {
      await openAccount(tx, id, role, service.clock.now)
      if (!invited) await setPasswordHash(tx, id, 'a hash that is never compared', service.clock.now)
    })
    return { id, email }
  }
  const read = (url: string, scopes = 'admin') => service.send({ url, scopes })
  const patch = (id: number | string, payload: object, headers: Record<string, string> = {}, scopes = 'admin') =>
    service.send({ method: 'PATCH', url: `/api/users/${id}/account`, payload, headers, scopes })
  const entriesOf = async (id: number) => {
    const entries = service.db.read.selectFrom('auditEntries').select(['event', 'details'])
    const rows = await entries.where('target', '=', String(id)).orderBy('sequence').execute()
    return rows.map(({ event, details }) => [event, details && JSON.parse(details)])
  }
  const recordOf = async (userId: number) => {
    const values = { kind: 'Session', id: `s${userId}`, payload: '{}', grantId: null, uid: `u${userId}` }
    const row = { ...values, userCode: null, userId, consumedAt: null, expiresAt: '2099-01-01T00:00:00.000Z' }
    await service.db.write((tx) => tx.insertInto('authRecords').values(row).execute())
    const records = service.db.read.selectFrom('authRecords').select('id').where('userId', '=', userId)
    return async () => (await records.execute()).length
  }

  describe('GET /api/users/{id}/account', () => {
    it('200 with status none before an invitation, invited until a password is set, then active', async () => {
      const { id, email } = await user()
      const none = {
        ...{ id, name: 'Somebody', email, status: 'none', role: null, hasPassword: false },
        ...{ passwordChangedAt: null, lockedAt: null, lastLoginAt: null, invitationExpiresAt: null },
        ...{ loginAttempts: 0, loginsBlockedUntil: null },
      }
      const before = await read(`/api/users/${id}/account`)
      assert.deepEqual([before.statusCode, before.headers['cache-control']], [200, 'no-store'])
      assert.deepEqual(before.json(), none)
      await service.send({ method: 'POST', url: `/api/users/${id}/invitation`, scopes: 'admin' })
      const invitationExpiresAt = new Date(service.clock.now + 30 * 60_000).toISOString()
      const invited = { ...none, status: 'invited', role: 'user', invitationExpiresAt }
      assert.deepEqual((await read(`/api/users/${id}/account`)).json(), invited)
      await service.db.write((tx) => setPasswordHash(tx, id, 'hash', service.clock.now))
      const active = await read(`/api/users/${id}/account?fields=status,hasPassword,invitationExpiresAt`)
      assert.deepEqual(active.json(), { status: 'active', hasPassword: true, invitationExpiresAt: null })
      assert.ok(!(await read(`/api/users/${id}/account`)).body.includes('"hash"'))
    })

    it('404 for an unknown user, 400 for a malformed id, 403 without the admin scope', async () => {
      const { id } = await user()
      for (const unknown of [999_999, 9_999_999_999]) {
        assert.equal((await read(`/api/users/${unknown}/account`)).statusCode, 404)
      }
      assert.equal((await read('/api/users/x/account')).statusCode, 400)
      for (const scopes of ['users:read users:write', 'audit:read']) {
        assert.equal((await read(`/api/users/${id}/account`, scopes)).statusCode, 403)
        assert.equal((await patch(id, { locked: true }, {}, scopes)).statusCode, 403)
      }
    })
  })

  describe('PATCH /api/users/{id}/account', () => {
    it('200 for locking and unlocking; locking ends the user’s logins, and each change is audited once', async () => {
      const { id } = await account()
      const recordsLeft = await recordOf(id)
      const locked = await patch(id, { locked: true })
      assert.deepEqual([locked.statusCode, locked.json().status], [200, 'locked'])
      assert.equal(locked.json().lockedAt, new Date(service.clock.now).toISOString())
      assert.equal(await recordsLeft(), 0)
      assert.equal((await patch(id, { locked: true })).statusCode, 200)
      const unlocked = await patch(id, { locked: false })
      assert.deepEqual([unlocked.json().status, unlocked.json().lockedAt], ['active', null])
      assert.deepEqual(await entriesOf(id), [
        ['account.locked', null],
        ['account.unlocked', null],
      ])
    })

    it('200 for a new role, which ends the logins and creates no invitation; the same role changes nothing', async () => {
      const { id } = await account('user')
      await account('admin')
      const recordsLeft = await recordOf(id)
      assert.equal((await patch(id, { role: 'user' })).json().role, 'user')
      assert.equal(await recordsLeft(), 1)
      const changed = (await patch(id, { role: 'admin' })).json()
      assert.deepEqual([changed.role, changed.invitationExpiresAt, await recordsLeft()], ['admin', null, 0])
      await patch(id, { role: 'user' })
      assert.deepEqual(await entriesOf(id), [
        ['account.role_changed', { role: 'admin' }],
        ['account.role_changed', { role: 'user' }],
      ])
    })

    it('200 for locking a user without an account, who then stays locked when invited', async () => {
      const { id } = await user()
      const locked = (await patch(id, { locked: true })).json()
      assert.deepEqual([locked.status, locked.role, locked.hasPassword], ['locked', 'user', false])
      await service.send({ method: 'POST', url: `/api/users/${id}/invitation`, scopes: 'admin' })
      assert.equal((await read(`/api/users/${id}/account`)).json().status, 'locked')
    })

    it('204 with return=minimal, 412 with any If-Match value except *', async () => {
      const { id } = await account()
      assert.equal((await patch(id, { locked: true }, { prefer: 'return=minimal' })).statusCode, 204)
      assert.equal((await patch(id, { locked: false }, { 'if-match': '"1"' })).statusCode, 412)
      assert.equal((await read(`/api/users/${id}/account`)).json().status, 'locked')
      assert.equal((await patch(id, { locked: false }, { 'if-match': '*' })).statusCode, 200)
    })

    it('409 LAST_ADMINISTRATOR for locking or demoting the last active administrator, even if locked or invited ones remain', async () => {
      await service.db.write((tx) => tx.updateTable('accounts').set({ role: 'user' }).execute())
      const [first, last] = [await account('admin'), await account('admin')]
      await account('admin', { invited: true })
      assert.equal((await patch(first.id, { locked: true })).statusCode, 200)
      for (const change of [{ locked: true }, { role: 'user' }, { role: 'user', locked: true }]) {
        const response = await patch(last.id, change)
        assert.deepEqual([response.statusCode, response.json().errorCode], [409, 'LAST_ADMINISTRATOR'])
      }
      const removal = { method: 'DELETE', url: `/users/${last.id}`, scopes: 'admin users:write' } as const
      assert.equal((await service.send(removal)).statusCode, 409)
      assert.deepEqual(await entriesOf(last.id), [])
      assert.equal((await patch(first.id, { locked: false })).statusCode, 200)
      assert.equal((await patch(last.id, { locked: true })).statusCode, 200)
    })

    it('one 200 and one 409 if the last two administrators are locked concurrently', async () => {
      await service.db.write((tx) => tx.updateTable('accounts').set({ role: 'user' }).execute())
      const both = [await account('admin'), await account('admin')]
      const responses = await Promise.all(both.map(({ id }) => patch(id, { locked: true })))
      assert.deepEqual(responses.map(({ statusCode }) => statusCode).sort(), [200, 409])
    })

    const wrong: [status: number, body: object][] = [
      [422, { role: 'king' }],
      [400, { role: null }],
      [400, { locked: 'yes' }],
      [400, { locked: null }],
    ]
    for (const [status, body] of wrong) {
      it(`${status} for ${JSON.stringify(body)}`, async () => {
        const { id } = await account()
        const response = await patch(id, body)
        assert.equal(response.statusCode, status, response.body)
        assert.deepEqual(await entriesOf(id), [])
      })
    }

    it('404 for an unknown user', async () => {
      assert.equal((await patch(999_999, { locked: true })).statusCode, 404)
      assert.equal((await patch(9_999_999_999, { role: 'admin' })).statusCode, 404)
    })
  })

  describe('GET /api/users', () => {
    let ids: number[]
    before(async () => {
      await service.db.write((tx) => tx.deleteFrom('users').execute())
      const ada = await account('admin', { name: 'Ada Lovelace' })
      const grace = await account('user', { name: 'Grace_Hopper' })
      const alan = await account('user', { invited: true, name: 'Alan Turing' })
      const noah = await user('Noah')
      await patch(grace.id, { locked: true })
      ids = [ada, grace, alan, noah].map(({ id }) => id)
    })
    const listed = async (query: string) => {
      const response = await read(`/api/users?${query}`)
      assert.equal(response.statusCode, 200, response.body)
      return response.json().map(({ id }: { id: number }) => ids.indexOf(id))
    }

    it('200 with pages of users with their accounts, newest first', async () => {
      const response = await read('/api/users?limit=3&fields=id,status')
      const statuses = response.json().map(({ status }: { status: string }) => status)
      assert.deepEqual(statuses, ['none', 'invited', 'locked'])
      const next = /<([^>]+)>; rel="next"/.exec(String(response.headers.link))?.[1] as string
      const last = await read(next)
      assert.deepEqual(last.json(), [{ id: ids[0], status: 'active' }])
      const previous = /<([^>]+)>; rel="prev"/.exec(String(last.headers.link))?.[1] as string
      assert.deepEqual((await read(previous)).json(), response.json())
    })

    const filters: [query: string, found: number[]][] = [
      ['q=LOVELACE', [0]],
      ['q=example.com', [3, 2, 1, 0]],
      ['q=e_h', [1]],
      ['q=%25', []],
      ['q=%00', []],
      ['role=admin', [0]],
      ['role=user', [2, 1]],
      ['status=none', [3]],
      ['status=invited', [2]],
      ['status=active', [0]],
      ['status=locked', [1]],
      ['status=locked&q=ada', []],
      ['role=user&status=invited&q=turing', [2]],
    ]
    for (const [query, found] of filters) {
      it(`200 with the users that match ${query}`, async () => {
        assert.deepEqual(await listed(query), found)
      })
    }

    it('200 with the next page of a filtered list; 400 for a cursor from a different filter', async () => {
      const response = await read('/api/users?q=example&limit=2')
      const next = /<([^>]+)>; rel="next"/.exec(String(response.headers.link))?.[1] as string
      assert.deepEqual((await read(next)).json().length, 2)
      const cursor = new URL(next, 'https://plinth.test').searchParams.get('cursor')
      assert.equal((await read(`/api/users?q=other&cursor=${cursor}`)).statusCode, 400)
    })

    it('400 for an empty or overlong search text, and an unknown role or status; 403 without the admin scope', async () => {
      for (const query of ['q=', `q=${'x'.repeat(101)}`, 'role=king', 'status=gone', 'limit=0']) {
        assert.equal((await read(`/api/users?${query}`)).statusCode, 400, query)
      }
      assert.equal((await read('/api/users', 'users:read users:read:full')).statusCode, 403)
    })
  })

  it('GET /api/clients/{id} shows when the client was last used, to the minute; use does not change the revision in the ETag', async () => {
    const body = { name: 'Partner', scopes: ['reports:read'], grants: ['client_credentials'] }
    const created = await service.send({ method: 'POST', url: '/api/clients', payload: body, scopes: 'admin' })
    const { id, lastUsedAt } = created.json()
    assert.equal(lastUsedAt, null)
    const { clock, db } = service
    const started = clock.now
    const counter = requestCounter({ db, now: () => clock.now, onError: (error) => assert.fail(String(error)) })
    const usedAfter = async (seconds: number) => {
      clock.now = started + seconds * 1_000
      counter.count(id)
      counter.count('https://issuer.example#other')
      await counter.flush()
      const response = await read(`/api/clients/${id}`)
      assert.match(String(response.headers.etag), /^"1\.[0-9a-f]{16}"$/)
      return (Date.parse(response.json().lastUsedAt) - started) / 1_000
    }
    assert.deepEqual([await usedAfter(1), await usedAfter(60), await usedAfter(61)], [1, 1, 61])
    const listed = (await read('/api/clients?limit=1')).json()
    assert.equal(Date.parse(listed[0].lastUsedAt), clock.now)
    await counter.close()
    const counts = db.read.selectFrom('requestCounts').select('requests').where('clientId', '=', id)
    assert.equal((await counts.executeTakeFirstOrThrow()).requests, 3)
  })
})
