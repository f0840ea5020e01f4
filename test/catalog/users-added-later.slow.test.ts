import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { builtIn } from '../../src/catalog/service.ts'
import { Line, collection as plainCollection, service as plainService, plinth, Title, Type } from '../../src/plinth.ts'
import { successiveAppsOn, type TestApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const extended = (fields: Parameters<typeof Type.Object>[0], roles: string[] = []) =>
  plinth({ users: { fields: Type.Object(fields), roles } }).service({ resources: [] })
const scopes = 'users:read users:read:full users:write admin'
const ada = { name: 'Ada', email: 'ada@example.com', phone: '1' }

const read = async ({ send }: TestApp, id: number) => {
  const response = await send({ url: `/users/${id}`, scopes })
  return { etag: response.headers.etag, body: response.json() }
}

forEachEngine((engine) => {
  describe('users of a service that adds fields later', () => {
    const { start, state } = successiveAppsOn(engine, { prefixes: [''] })

    it('have no value for a required field until one is set, and keep their revision', async () => {
      const { service: before } = await start(builtIn)
      const { id } = (await before.send({ method: 'POST', url: '/users', payload: ada, scopes })).json()
      const old = await read(before, id)
      const { service, done } = await start(extended({ tenant: Line(1, 40), level: Type.Integer() }, ['member']))
      assert.ok(
        done.some((statement) => /add column "tenant"/.test(statement)),
        done.join('\n'),
      )
      assert.deepEqual(await read(service, id), old)
      const listed = (await service.send({ url: '/users', scopes })).json()
      assert.deepEqual(listed, [{ id, name: 'Ada', email: 'ada@example.com' }])
      assert.equal((await service.send({ url: '/users?tenant=north', scopes })).json().length, 0)
      const payload = { tenant: 'north', role: 'member' }
      const set = await service.send({ method: 'PATCH', url: `/users/${id}`, payload, scopes })
      assert.deepEqual([set.statusCode, set.json().tenant, set.headers.etag], [200, 'north', '"2"'])
      const more = await start(
        extended({ tenant: Line(1, 40), level: Type.Integer(), isPaid: Type.Boolean() }, ['member']),
      )
      assert.equal((await read(more.service, id)).body.tenant, 'north')
    })

    it('prevent the start if a field is no longer declared', async () => {
      await start(extended({ tenant: Line(1, 40) }))
      const message = /\/users: the field tenant is no longer declared, but users still has its column/
      await assert.rejects(start(builtIn), message)
      await assert.rejects(start(extended({ region: Line(1, 40) })), message)
      await start(extended({ tenant: Line(1, 40) }))
    })

    it('can be written by a node that runs the previous definition', async () => {
      const { service: before } = await start(builtIn)
      const { service } = await start(extended({ tenant: Line(1, 40) }, ['member']))
      const created = await before.send({ method: 'POST', url: '/users', payload: ada, scopes })
      const { id } = created.json()
      await service.send({ method: 'PATCH', url: `/users/${id}`, payload: { tenant: 'north' }, scopes })
      const renamed = await before.send({
        method: 'PUT',
        url: `/users/${id}`,
        payload: { ...ada, name: 'Eve' },
        scopes,
      })
      assert.equal(renamed.statusCode, 200, renamed.body)
      const { name, tenant, createdBy } = (await read(service, id)).body
      assert.deepEqual([name, tenant, createdBy], ['Eve', 'north', undefined])
    })

    it('add no columns if the service does not serve /users', async () => {
      const notes = plainCollection({ path: '/notes', noun: 'note', body: Type.Object({ title: Title }) })
      const { done } = await start(plainService({ resources: [notes] }))
      assert.ok(!done.some((statement) => /"users"/.test(statement)))
      const columns = await state.db.engine.columnsOf('users').execute(state.db.read)
      assert.deepEqual(columns.rows.map(({ name }) => name).sort(), [
        ...['address', 'created_at', 'email', 'email_key', 'id', 'name', 'name_key', 'phone', 'revision'],
        ...['shares_second', 'updated_at'],
      ])
    })
  })
})
