import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { service as define } from '../../../src/definition/service.ts'
import { Line } from '../../../src/http/text-rules.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Instant } from '../../../src/resources/field-types.ts'
import { appOn, type TestApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const customers = collection({
  path: '/customers',
  noun: 'customer',
  body: Type.Object({
    tenant: Line(1, 40),
    email: Line(1, 250),
    serial: Type.Optional(Type.Integer()),
    seenAt: Type.Optional(Instant),
    code: Type.Optional(Line(1, 20)),
    postCode: Type.Optional(Line(1, 20)),
  }),
  filters: ['tenant'],
  unique: ['code', ['tenant', 'email'], ['serial', 'seenAt', 'postCode']],
})
const definition = define({ resources: [customers] })
const scopes = 'customers:read customers:write'
const url = '/customers'

forEachEngine((engine) => {
  describe('fields that are unique together', () => {
    const service = appOn(engine, { definition })
    const send: TestApp['send'] = (request) => service.send({ scopes, ...request })
    const post = (payload: object) => send({ method: 'POST', url, payload })
    const create = async (payload: object) => {
      const answer = await post(payload)
      assert.equal(answer.statusCode, 201, answer.body)
      return answer.json()
    }
    const north = { tenant: 'north', email: 'ada@example.com' }
    const taken = [
      { field: 'tenant', message: 'is in use already together with email' },
      { field: 'email', message: 'is in use already together with tenant' },
    ]

    it('409 naming the fields if all are equal, ignoring the case of text; 201 if at least one differs', async () => {
      await create(north)
      const answer = await post({ tenant: 'North', email: 'ADA@example.com' })
      const { errorCode, detail, errors } = answer.json()
      assert.deepEqual([answer.statusCode, errorCode, errors], [409, 'DUPLICATE_RESOURCE', taken], answer.body)
      assert.match(detail, /Another customer has this tenant and email/)
      await create({ ...north, tenant: 'south' })
      await create({ ...north, email: 'eve@example.com' })
    })

    it('409 for a PUT or PATCH that would produce a duplicate; nothing changes', async () => {
      const { id } = await create({ tenant: 'west', email: 'ada@example.com' })
      await create({ tenant: 'east', email: 'ada@example.com' })
      const changes = [
        { method: 'PUT', payload: { tenant: 'east', email: 'ada@example.com' } },
        { method: 'PATCH', payload: { tenant: 'EAST' } },
      ] as const
      for (const change of changes) {
        const answer = await send({ ...change, url: `${url}/${id}` })
        assert.deepEqual([answer.statusCode, answer.json().errors], [409, taken], answer.body)
      }
      const kept = await send({ url: `${url}/${id}` })
      assert.deepEqual([kept.json().tenant, kept.headers.etag], ['west', '"1"'])
      assert.equal((await send({ method: 'PATCH', url: `${url}/${id}`, payload: { tenant: 'WEST' } })).statusCode, 200)
    })

    it('201 for equal values while one value of the tuple is absent, 409 once all are present', async () => {
      const partial = { serial: 7, postCode: 'A' }
      await create({ tenant: 'p', email: '1', ...partial })
      const { id } = await create({ tenant: 'p', email: '2', ...partial })
      const whole = { ...partial, seenAt: '2026-03-01T12:00:00Z' }
      await create({ tenant: 'p', email: '3', ...whole })
      const sameInstant = { ...whole, seenAt: '2026-03-01T13:00:00+01:00', postCode: 'a' }
      const answer = await post({ tenant: 'p', email: '4', ...sameInstant })
      const { errors } = answer.json()
      assert.deepEqual(
        errors.map(({ field }: { field: string }) => field),
        ['serial', 'seenAt', 'postCode'],
      )
      assert.equal(errors[1].message, 'is in use already together with serial and postCode')
      assert.equal((await send({ method: 'PATCH', url: `${url}/${id}`, payload: whole })).statusCode, 409)
    })

    it('409 naming one field if that field is unique on its own', async () => {
      await create({ tenant: 's', email: '1', code: 'X' })
      const answer = await post({ tenant: 's', email: '2', code: 'x' })
      assert.deepEqual(answer.json().errors, [{ field: 'code', message: 'is in use already' }])
    })

    it('201 for only one of several equal concurrent requests', async () => {
      const answers = await Promise.all(Array.from({ length: 5 }, () => post({ tenant: 'race', email: 'r' })))
      assert.deepEqual(answers.map(({ statusCode }) => statusCode).sort(), [201, 409, 409, 409, 409])
    })

    it('are documented with 409 DUPLICATE_RESOURCE for POST, PUT and PATCH', async () => {
      const { paths } = (await send({ url: '/openapi.json' })).json()
      for (const operation of [paths[url].post, paths[`${url}/{id}`].put, paths[`${url}/{id}`].patch]) {
        assert.match(operation.responses['409'].description, /DUPLICATE_RESOURCE/)
      }
    })
  })
})
