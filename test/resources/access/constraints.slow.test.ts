import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { sql } from 'kysely'
import { plinth, Title, Type } from '../../../src/plinth.ts'
import { appOn, type TestApp, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const { collection, service } = plinth({ claims: ({ client }) => ({ tenant: client.id.split('_')[1] }) })

const tickets = collection({
  path: '/tickets',
  noun: 'ticket',
  body: Type.Object({
    tenant: Type.String({ maxLength: 40 }),
    number: Type.Integer(),
    text: Title,
    from: Type.Integer(),
    to: Type.Integer(),
    pin: Type.Optional(Type.String({ maxLength: 4 })),
    state: Type.Enum(['open', 'locked']),
  }),
  filters: ['tenant'],
  unique: [['tenant', 'number']],
  writeOnly: ['pin'],
  immutable: ['number'],
  defaults: { state: 'open' },
  rules: [{ field: 'to', message: 'must not be below from', holds: ({ from, to }) => to >= from }],
  access: {
    read: (caller) => ({ tenant: caller.claims.tenant }),
    write: (caller) => ({ createdBy: caller.id, state: 'open' }),
  },
})

/** New rows always belong to the tenant `north`. */
const letters = collection({
  path: '/letters',
  noun: 'letter',
  body: Type.Object({ tenant: Type.String({ maxLength: 40 }), text: Title }),
  set: { tenant: 'north' },
  access: (caller) => ({ tenant: caller.claims.tenant }),
})
const definition = service({ resources: [tickets, letters] })
const scopes = Object.keys(definition.scopes).join(' ')
const mergePatch = { 'content-type': 'application/merge-patch+json' }

type Who = 'own_north' | 'other_north' | 'own_south'

forEachEngine((engine) => {
  describe('access rules of a resource with immutable and write-only fields, rules and unique tuples', () => {
    const app = appOn(engine, { prefixes: [''], definition })
    const as = (who: Who, request: Parameters<TestApp['send']>[0]) =>
      app.send({ token: token(scopes, who), ...request })
    let count = 0
    const sent = (more: object = {}) => ({
      ...{ tenant: 'north', number: ++count, text: 'first', from: 1, to: 5, pin: '#!#!' },
      ...more,
    })
    const post = (who: Who, payload: object) => as(who, { method: 'POST', url: '/tickets', payload })
    const create = async (more: object = {}) => {
      const created = await post('own_north', sent(more))
      assert.equal(created.statusCode, 201, created.body)
      return created.json()
    }
    const refusalOf = async (who: Who, request: Parameters<TestApp['send']>[0]) => {
      const response = await as(who, request)
      assert.doesNotMatch(response.body, /cannot be changed|must not be below|#!#!/)
      return response.statusCode
    }

    it('404 or 403 for callers who may not change the row, before immutable fields and rules are checked', async () => {
      const { id, number } = await create()
      const url = `/tickets/${id}`
      const { pin: _, ...body } = sent()
      const requests = [
        { method: 'PUT', url, payload: { ...body, number } },
        { method: 'PUT', url, payload: { ...body, number: number + 1_000 } },
        { method: 'PUT', url, payload: { ...body, number: undefined } },
        { method: 'PATCH', url, payload: { number }, headers: mergePatch },
        { method: 'PATCH', url, payload: { number: number + 1_000 }, headers: mergePatch },
        { method: 'PATCH', url, payload: { to: 0 }, headers: mergePatch },
        { method: 'PUT', url, payload: { ...body, number }, headers: { 'if-match': '"999"' } },
      ] as const
      for (const request of requests) {
        assert.equal(await refusalOf('own_south', request), 404, JSON.stringify(request))
        assert.equal(await refusalOf('other_north', request), 403, JSON.stringify(request))
      }
      const own = await Promise.all(requests.slice(0, 2).map((request) => as('own_north', request)))
      assert.deepEqual(
        own.map(({ statusCode }) => statusCode),
        [200, 422],
      )
      assert.deepEqual(own[1]?.json().errors, [{ field: 'number', message: 'cannot be changed' }])
      assert.equal((await as('own_north', { url })).json().number, number)
    })

    it('403 for a PUT or PATCH that would produce a row that the caller cannot write; nothing is stored', async () => {
      const { id, number } = await create()
      const url = `/tickets/${id}`
      const { pin: _, ...body } = sent({ number })
      for (const change of [{ tenant: 'south' }, { state: 'locked' }]) {
        const put = { method: 'PUT', url, payload: { ...body, ...change } } as const
        const patch = { method: 'PATCH', url, payload: change, headers: mergePatch } as const
        for (const request of [put, patch]) {
          const response = await as('own_north', request)
          assert.equal(response.statusCode, 403, response.body)
          assert.equal(response.json().errorCode, 'PERMISSION_DENIED')
        }
      }
      const { tenant, state, revision: __, ...rest } = (await as('own_north', { url })).json()
      assert.deepEqual([tenant, state, rest.updatedAt], ['north', 'open', rest.createdAt])
    })

    it('200 for a PUT that omits defaulted, immutable and write-only fields; immutable and write-only values are kept', async () => {
      const { id, number, createdBy } = await create()
      const pinOf = async (id: number) => {
        const found = sql<{ pin: string | null }>`select pin from resource_tickets where id = ${id}`
        return (await found.execute(app.db.read)).rows[0]?.pin
      }
      assert.equal(await pinOf(id), '#!#!')
      const payload = { tenant: 'north', text: 'second', from: 2, to: 3 }
      const changed = await as('own_north', { method: 'PUT', url: `/tickets/${id}`, payload })
      assert.equal(changed.statusCode, 200, changed.body)
      const { text, ...kept } = changed.json()
      assert.deepEqual(
        [text, kept.number, kept.state, kept.createdBy, 'pin' in kept],
        ['second', number, 'open', createdBy, false],
      )
      assert.equal(await pinOf(id), '#!#!')
    })

    it('409 for a new row with a number already used in its tenant, 201 if only another tenant uses it, 403 outside the caller’s tenant', async () => {
      const { number } = await create()
      const duplicate = await post('other_north', sent({ number }))
      assert.deepEqual([duplicate.statusCode, duplicate.json().errorCode], [409, 'DUPLICATE_RESOURCE'])
      assert.equal((await post('own_south', sent({ number, tenant: 'south' }))).statusCode, 201)
      assert.equal((await post('own_south', sent({ tenant: 'north' }))).statusCode, 403)
    })

    it('201 if the caller may write to the tenant that `set` assigns to a new row, otherwise 403', async () => {
      const payload = { text: 'Hello', tenant: 'south' }
      const own = await as('own_north', { method: 'POST', url: '/letters', payload })
      assert.deepEqual([own.statusCode, own.json().tenant], [201, 'north'])
      const foreign = await as('own_south', { method: 'POST', url: '/letters', payload })
      assert.equal(foreign.statusCode, 403, foreign.body)
      assert.equal((await as('own_north', { url: '/letters' })).json().length, 1)
    })
  })
})
