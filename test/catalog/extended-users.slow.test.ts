import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { sql } from 'kysely'
import { addUser, openAccount } from '../../src/oauth/users/accounts.ts'
import { Line, plinth, Title, Type } from '../../src/plinth.ts'
import { appOn, type TestApp, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const { collection, service } = plinth({
  users: {
    fields: Type.Object({
      tenant: Line(1, 40),
      level: Type.Optional(Type.Integer({ minimum: 0 })),
      languages: Type.Array(Type.String()),
      nickname: Type.Optional(Line(1, 40)),
    }),
    roles: ['member', 'auditor'],
    own: ['phone', 'nickname'],
    userinfo: ['tenant', 'role'],
  },
  claims: ({ user, client }) => ({ tenant: user?.tenant ?? client.labels.tenant }),
})
const notes = collection({
  path: '/notes',
  noun: 'note',
  body: Type.Object({ tenant: Line(1, 40), text: Title }),
  access: (caller) => caller.is('auditor') || { tenant: caller.claims.tenant },
})
const definition = service({ resources: [notes] })
const noteScopes = 'notes:read notes:write'
const ownScopes = `users:read users:write:own ${noteScopes}`
const fullScopes = 'users:read users:read:full users:write'
const adminScopes = `${fullScopes} admin`
const mergePatch = { 'content-type': 'application/merge-patch+json' }

type Request = Parameters<TestApp['send']>[0]

forEachEngine((engine) => {
  describe('users with additional fields and roles', () => {
    const app = appOn(engine, { prefixes: [''], definition })
    let [ada, eve] = [0, 0]
    let count = 0
    const newUser = (isAdministrator = false) =>
      app.db.write(async (tx) => {
        const id = await addUser(tx, 'Ada', `user${++count}@example.com`, app.clock.now)
        await openAccount(tx, id, isAdministrator ? 'admin' : 'user', app.clock.now)
        return id
      })
    before(async () => {
      ada = await newUser()
      eve = await newUser()
    })
    const as = (id: number, request: Request, scopes = ownScopes) =>
      app.send({ ...request, token: token(scopes, 'cli_app', String(id)) })
    const asAdmin = (request: Request) => app.send({ ...request, scopes: adminScopes })
    const patched = (id: number, payload: object): Request => ({
      ...{ method: 'PATCH', url: `/users/${id}`, headers: mergePatch, payload },
    })
    const set = async (id: number, payload: object) => {
      const response = await asAdmin(patched(id, payload))
      assert.equal(response.statusCode, 200, response.body)
      return response.json()
    }
    const refused = (response: {
      statusCode: number
      json: () => { errorCode: string; errors?: { field: string }[] }
    }) => {
      const { errorCode, errors = [] } = response.json()
      return [response.statusCode, errorCode, ...errors.map(({ field }) => field)]
    }
    const entries = async (target: number) => {
      const rows = app.db.read.selectFrom('auditEntries').selectAll().where('target', '=', String(target))
      return (await rows.orderBy('sequence').execute()).map(({ event, details, clientId }) => [
        event,
        JSON.parse(details ?? '{}'),
        clientId,
      ])
    }

    const eventsOf = async (id: number) => {
      const rows = await app.db.read.selectFrom('events').select(['type', 'body']).orderBy('type').execute()
      return rows.filter(({ body }) => JSON.parse(body).id === id).map(({ type }) => type)
    }

    describe('GET /users', () => {
      it('200 with only the caller in lists and counts; 404 for any other user', async () => {
        const list = await as(ada, { url: '/users', headers: { prefer: 'count=exact' } })
        assert.deepEqual([list.json().map(({ id }: { id: number }) => id), list.headers['x-total-count']], [[ada], '1'])
        for (const query of ['?name=Ada', '?q=ada', '?sort=-id', '?role[null]=true', `?id=${eve}`]) {
          const found = (await as(ada, { url: `/users${query}` })).json()
          assert.ok(Array.isArray(found) ? found.every(({ id }) => id === ada) : query.startsWith('?id'), query)
        }
        assert.equal((await as(ada, { url: `/users/${ada}` })).statusCode, 200)
        assert.equal((await as(ada, { url: `/users/${eve}` })).statusCode, 404)
      })

      it('200 with an empty list for a machine client, even if its client id looks like a user id', async () => {
        assert.deepEqual((await app.send({ url: '/users', scopes: 'users:read admin' })).json(), [])
        const machine = { token: token('users:read', String(ada), String(ada)) }
        assert.deepEqual((await app.send({ url: '/users', ...machine })).json(), [])
        assert.equal((await app.send({ url: `/users/${ada}`, ...machine })).statusCode, 404)
      })

      it('with users:read:full: 200 with all users, their added fields and roles, and filters on both', async () => {
        const [north, south] = [await newUser(), await newUser()]
        await set(north, { tenant: 'North', level: 3, role: 'member', languages: ['en', 'de'] })
        await set(south, { tenant: 'south', role: 'auditor' })
        const idsOf = async (query: string) =>
          (await app.send({ url: `/users?${query}`, scopes: fullScopes })).json().map(({ id }: { id: number }) => id)
        assert.deepEqual(await idsOf('tenant=north'), [north])
        assert.deepEqual(await idsOf('role=auditor,member'), [north, south])
        assert.deepEqual(await idsOf('level[from]=2'), [north])
        const { tenant, level, role, languages } = (
          await app.send({ url: `/users/${north}`, scopes: fullScopes })
        ).json()
        assert.deepEqual([tenant, level, role, languages], ['North', 3, 'member', ['en', 'de']])
        assert.ok((await idsOf('limit=100')).includes(ada))
      })
    })

    describe('writes to /users', () => {
      it('403 PERMISSION_DENIED naming the fields when users write their own tenant or role (T-API-10)', async () => {
        await set(ada, { tenant: 'north' })
        assert.deepEqual(refused(await as(ada, patched(ada, { tenant: 'south' }))), [
          403,
          'PERMISSION_DENIED',
          'tenant',
        ])
        assert.deepEqual(refused(await as(ada, patched(ada, { tenant: null, role: 'auditor', phone: '1' }))), [
          ...[403, 'PERMISSION_DENIED', 'tenant', 'role'],
        ])
        assert.deepEqual(refused(await as(ada, patched(ada, { email: 'eve@example.com', name: 'Eve' }))), [
          ...[403, 'PERMISSION_DENIED', 'name', 'email'],
        ])
        const { tenant, role, phone } = (await as(ada, { url: `/users/${ada}` })).json()
        assert.deepEqual([tenant, role, phone], ['north', undefined, undefined])
      })

      it('200 when users write the fields listed in `own`, by PATCH or by a PUT of the GET response', async () => {
        const { id } = await set(await newUser(), { tenant: 'north', level: 1, role: 'member' })
        const patch = await as(id, patched(id, { phone: '+44 1', nickname: 'Countess' }))
        assert.deepEqual([patch.statusCode, patch.json().phone, patch.json().nickname], [200, '+44 1', 'Countess'])
        const read = (await as(id, { url: `/users/${id}` })).json()
        const put = await as(id, { method: 'PUT', url: `/users/${id}`, payload: { ...read, phone: '+44 2' } })
        assert.equal(put.statusCode, 200, put.body)
        const { name, email } = read
        const short = await as(id, { method: 'PUT', url: `/users/${id}`, payload: { name, email } })
        const { tenant, level, role, nickname, phone } = short.json()
        assert.deepEqual([tenant, level, role, nickname, phone], ['north', 1, 'member', 'Countess', undefined])
        const removed = await as(id, patched(id, { nickname: null }))
        assert.deepEqual([removed.statusCode, removed.json().nickname], [200, undefined])
      })

      it('404 for writes to a user whom the caller cannot see, 403 for writes without the required scope', async () => {
        assert.equal((await as(ada, patched(eve, { phone: '1' }))).statusCode, 404)
        assert.equal((await as(ada, patched(ada, { phone: '1' }), 'users:read')).statusCode, 403)
        const withoutWrite = await as(ada, patched(eve, {}), `${ownScopes} users:read:full`)
        assert.deepEqual(refused(withoutWrite), [403, 'PERMISSION_DENIED'])
        assert.equal((await as(ada, { method: 'DELETE', url: `/users/${ada}` })).statusCode, 403)
        const removal = { method: 'DELETE', url: `/users/${ada}` } as const
        assert.deepEqual(refused(await as(ada, removal, 'users:write')), [403, 'ACCESS_DENIED'])
      })

      it('with users:write, creates and changes users; 403 for added fields, or for a POST without users:read:full', async () => {
        const payload = { name: 'Grace', email: 'grace@example.com' }
        const send = (more: object) =>
          app.send({ method: 'POST', url: '/users', payload: { ...payload, ...more }, scopes: fullScopes })
        assert.deepEqual(refused(await send({ tenant: 'north', nickname: 'G' })), [
          ...[403, 'PERMISSION_DENIED', 'tenant', 'nickname'],
        ])
        const created = await send({ phone: '+1' })
        assert.equal(created.statusCode, 201, created.body)
        const { id } = created.json()
        const change = (change: object) => app.send({ ...patched(id, change), scopes: fullScopes })
        assert.equal((await change({ name: 'Grace Hopper' })).statusCode, 200)
        assert.deepEqual(refused(await change({ nickname: 'G' })), [403, 'PERMISSION_DENIED', 'nickname'])
        const other = { ...payload, email: 'other@example.com' }
        const without = await app.send({ method: 'POST', url: '/users', payload: other, scopes: 'users:write' })
        assert.deepEqual(refused(without), [403, 'PERMISSION_DENIED'])
        const taken = await app.send({ method: 'POST', url: '/users', payload, scopes: 'users:write' })
        assert.deepEqual(refused(taken), [403, 'PERMISSION_DENIED'])
      })

      it('creates and changes users for administrators, with audit entries; a PUT keeps the added fields that it omits', async () => {
        const payload = { name: 'Alan', email: 'alan@example.com', tenant: 'north', role: 'member' }
        const created = await asAdmin({ method: 'POST', url: '/users', payload })
        assert.equal(created.statusCode, 201, created.body)
        const { id } = created.json()
        const { name, email } = payload
        const put = await asAdmin({ method: 'PUT', url: `/users/${id}`, payload: { name, email, level: 2 } })
        const { tenant, role, level } = put.json()
        assert.deepEqual([put.statusCode, tenant, role, level], [200, 'north', 'member', 2])
        await set(id, { role: 'auditor', tenant: 'north' })
        await set(id, { role: null, phone: '1' })
        await set(id, { phone: '2' })
        await as(id, patched(id, { nickname: 'A' }))
        assert.deepEqual(await entries(id), [
          ['user.updated', { fields: ['tenant', 'role'], role: 'member' }, 'cli_test'],
          ['user.updated', { fields: ['level'] }, 'cli_test'],
          ['user.updated', { fields: ['role'], role: 'auditor' }, 'cli_test'],
          ['user.updated', { fields: ['role'] }, 'cli_test'],
        ])
      })

      it('422 for an undeclared role and for invalid field values', async () => {
        for (const payload of [{ role: 'admin' }, { role: 'owner' }, { tenant: '' }, { level: -1 }]) {
          const response = await asAdmin(patched(ada, payload))
          assert.deepEqual(refused(response), [422, 'VALIDATION_ERROR', ...Object.keys(payload)], response.body)
        }
        const response = await asAdmin(patched(ada, { role: 'admin' }))
        assert.match(response.body, /must be one of member, auditor/)
      })

      it('412 for an outdated ETag; 403 takes precedence', async () => {
        const outdated = { headers: { ...mergePatch, 'if-match': '"999"' } }
        assert.equal((await asAdmin({ ...patched(ada, { tenant: 'east' }), ...outdated })).statusCode, 412)
        assert.equal((await as(ada, { ...patched(ada, { tenant: 'east' }), ...outdated })).statusCode, 403)
      })
    })

    describe('access rules', () => {
      const write = (id: number, tenant: string) =>
        as(id, { method: 'POST', url: '/notes', payload: { tenant, text: 'Hello' } })
      const tenantsOf = async (id: number) => {
        const list = (await as(id, { url: '/notes' })).json() as { tenant: string }[]
        return [...new Set(list.map(({ tenant }) => tenant))].sort()
      }

      it("200 with the rows of the user's tenant; none for a user without a tenant", async () => {
        const [north, south, nobody] = [await newUser(), await newUser(), await newUser()]
        await set(north, { tenant: 'north' })
        await set(south, { tenant: 'south' })
        assert.deepEqual(
          [(await write(north, 'north')).statusCode, (await write(south, 'south')).statusCode],
          [201, 201],
        )
        assert.deepEqual(
          [(await write(north, 'south')).statusCode, (await write(nobody, 'north')).statusCode],
          [403, 403],
        )
        assert.deepEqual(
          [await tenantsOf(north), await tenantsOf(south), await tenantsOf(nobody)],
          [['north'], ['south'], []],
        )
      })

      it('a changed role or field takes effect after five seconds', async () => {
        const id = await newUser()
        await set(id, { tenant: 'west' })
        await write(id, 'west')
        assert.deepEqual(await tenantsOf(id), ['west'])
        await set(id, { role: 'auditor' })
        app.clock.now += 4_999
        assert.deepEqual(await tenantsOf(id), ['west'])
        app.clock.now += 1
        assert.ok((await tenantsOf(id)).includes('south'))
        await set(id, { role: 'member', tenant: null })
        app.clock.now += 5_000
        assert.deepEqual(await tenantsOf(id), [])
      })

      it('an administrator sees no rows by default, and all rows once given the auditor role', async () => {
        const id = await newUser(true)
        assert.deepEqual(await tenantsOf(id), [])
        await set(id, { role: 'auditor' })
        app.clock.now += 5_000
        const stored = await sql<{ id: number }>`select id from resource_notes order by id`.execute(app.db.read)
        const listed = (await as(id, { url: '/notes?limit=200' })).json() as { id: number; tenant: string }[]
        assert.deepEqual(
          listed.map((note) => note.id),
          stored.rows.map((row) => Number(row.id)),
        )
        assert.ok(new Set(listed.map(({ tenant }) => tenant)).size > 1)
      })
    })

    describe('POST /api/users/{id}/invitation', () => {
      const invite = (id: number, role: string) =>
        app.send({ method: 'POST', url: `/api/users/${id}/invitation`, payload: { role }, scopes: 'admin' })

      it('201 with a declared role; assigns it to the user and publishes user.updated', async () => {
        const webhook = { event: 'user.*', callbackUrl: 'http://127.0.0.1:1/hook' }
        const scopes = `${fullScopes} webhooks:write`
        assert.equal(
          (await app.send({ method: 'POST', url: '/api/webhooks', payload: webhook, scopes })).statusCode,
          201,
        )
        const { id, revision: _ } = (
          await asAdmin({ method: 'POST', url: '/users', payload: { name: 'New', email: 'new@example.com' } })
        ).json()
        assert.equal((await invite(id, 'auditor')).statusCode, 201)
        assert.equal((await asAdmin({ url: `/users/${id}` })).json().role, 'auditor')
        const account = app.db.read.selectFrom('accounts').select('role').where('userId', '=', id)
        assert.equal((await account.executeTakeFirstOrThrow()).role, 'user')
        assert.deepEqual(await eventsOf(id), ['user.created', 'user.updated'])
        assert.deepEqual(await entries(id), [['invitation.created', { role: 'auditor' }, 'cli_test']])
        assert.equal((await invite(id, 'admin')).statusCode, 201)
        assert.equal((await asAdmin({ url: `/users/${id}` })).json().role, 'auditor')
      })

      it('422 for an undeclared role, 404 for an unknown user', async () => {
        assert.equal((await invite(ada, 'owner')).statusCode, 422)
        assert.equal((await invite(999_999, 'auditor')).statusCode, 404)
      })
    })
  })
})
