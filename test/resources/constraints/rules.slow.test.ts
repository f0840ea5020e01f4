import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { service as define } from '../../../src/definition/service.ts'
import { Line } from '../../../src/http/text-rules.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Instant, Title } from '../../../src/resources/field-types.ts'
import { appOn, type TestApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const bookings = collection({
  path: '/bookings',
  noun: 'booking',
  body: Type.Object({
    title: Title,
    start: Instant,
    end: Type.Optional(Type.String({ format: 'date-time', description: 'When it ends' })),
    seats: Type.Integer({ default: 1 }),
    guests: Type.Optional(Type.Array(Type.String())),
    limit: Type.Optional(Type.Integer()),
    room: Type.Optional(Line(1, 20)),
  }),
  writeOnly: ['limit'],
  immutable: ['room'],
  rules: [
    { field: 'end', message: 'must not be before start', holds: ({ start, end }) => end === undefined || end >= start },
    {
      field: 'guests',
      message: 'must not be more than seats',
      holds: ({ guests = [], seats }) => guests.sort().length <= seats,
    },
    { field: 'seats', message: 'must not be more than the limit', holds: ({ seats, limit }) => seats <= (limit ?? 9) },
    {
      field: 'title',
      message: 'must be good',
      holds: ({ title }) => {
        if (title === 'throws') throw Object.assign(new Error('a secret'), { statusCode: 413 })
        return (title === 'promise' ? Promise.resolve(true) : title !== 'bad') as boolean
      },
    },
  ],
})
const definition = define({ resources: [bookings] })
const scopes = 'bookings:read bookings:write'
const url = '/bookings'
const booking = { title: 'A', start: '2026-03-01T12:00:00Z', end: '2026-03-01T13:00:00Z' }
const endsEarly = [{ field: 'end', message: 'must not be before start' }]

forEachEngine((engine) => {
  describe('rules across fields', () => {
    const service = appOn(engine, { definition })
    const send: TestApp['send'] = (request) => service.send({ scopes, ...request })
    const post = (more: object = {}) => send({ method: 'POST', url, payload: { ...booking, ...more } })
    const create = async (more: object = {}) => {
      const answer = await post(more)
      assert.equal(answer.statusCode, 201, answer.body)
      return answer.json()
    }
    const change = (method: 'PUT' | 'PATCH', id: number, payload: object) =>
      send({ method, url: `${url}/${id}`, payload })
    const count = async () => (await send({ url: `${url}?limit=200` })).json().length

    it('422 naming every rule that a POST breaks; nothing is stored', async () => {
      const before = await count()
      const answer = await post({ end: '2026-03-01T11:00:00Z', guests: ['b', 'a'] })
      const { errorCode, errors } = answer.json()
      const tooMany = { field: 'guests', message: 'must not be more than seats' }
      assert.deepEqual([answer.statusCode, errorCode, errors], [422, 'VALIDATION_ERROR', [...endsEarly, tooMany]])
      assert.equal(await count(), before)
    })

    it('receive default values, instants in UTC, and undefined for absent fields', async () => {
      await create({ end: undefined })
      await create({ guests: ['a'] })
      await create({ start: '2026-03-01T14:00:00+02:00', end: '2026-03-01T12:00:00Z' })
      assert.equal((await post({ start: '2026-03-01T12:00:00Z', end: '2026-03-01T12:30:00+01:00' })).statusCode, 422)
    })

    it('201 with the sent values, even if a rule modifies its copy of them', async () => {
      assert.deepEqual((await create({ guests: ['b', 'a'], seats: 2 })).guests, ['b', 'a'])
    })

    it('422 for a PUT or PATCH with a result that breaks a rule; nothing changes', async () => {
      const { id } = await create()
      for (const [method, payload] of [
        ['PUT', { ...booking, end: '2026-03-01T11:59:59Z' }],
        ['PATCH', { end: '2026-03-01T11:00:00Z' }],
        ['PATCH', { start: '2026-03-02T00:00:00Z' }],
      ] as const) {
        const answer = await change(method, id, payload)
        assert.deepEqual([answer.statusCode, answer.json().errors], [422, endsEarly], answer.body)
      }
      assert.equal((await send({ url: `${url}/${id}` })).headers.etag, '"1"')
      assert.equal((await change('PATCH', id, { start: '2026-03-02T00:00:00Z', end: null })).statusCode, 200)
    })

    it('apply to the result of a PUT, including the stored values of fields that it omits', async () => {
      const { id } = await create({ limit: 2, room: 'R' })
      const answer = await change('PUT', id, { ...booking, seats: 3 })
      assert.deepEqual(answer.json().errors, [{ field: 'seats', message: 'must not be more than the limit' }])
      const changed = await change('PUT', id, { ...booking, seats: 2 })
      assert.deepEqual([changed.statusCode, changed.json().room], [200, 'R'], changed.body)
      assert.equal((await change('PUT', id, { ...booking, seats: 3, limit: 3 })).statusCode, 200)
      assert.equal((await change('PUT', 987_654, booking)).statusCode, 404)
    })

    it('400 and 422 for invalid fields take precedence over broken rules', async () => {
      const answer = await post({ start: 'x', end: '2026-03-01T11:00:00Z', title: 'throws' })
      assert.deepEqual([answer.statusCode, answer.json().errors[0].field], [422, 'start'])
      assert.equal((await post({ seats: '1', title: 'throws' })).statusCode, 400)
    })

    for (const [title, message, cause] of [
      ['throws', "the rule 'title must be good' of /bookings threw an error", 'a secret'],
      ['promise', "the rule 'title must be good' of /bookings must return true or false, not object", undefined],
    ]) {
      it(`500 for a rule that ${title === 'throws' ? 'throws' : 'returns a promise'}, naming it only in the log`, async () => {
        const before = await count()
        const { id } = await create()
        for (const answer of [await post({ title }), await change('PATCH', id, { title })]) {
          assert.deepEqual([answer.statusCode, answer.json().errorCode], [500, 'INTERNAL_ERROR'])
          assert.doesNotMatch(answer.body, /secret|must be good/)
        }
        const faults = service.faults.splice(0) as Error[]
        assert.deepEqual(
          faults.map((fault) => [fault.message, (fault.cause as Error | undefined)?.message]),
          [
            [message, cause],
            [message, cause],
          ],
        )
        assert.equal(await count(), before + 1)
      })
    }

    it('a 422 response does not use up the Idempotency-Key', async () => {
      const headers = { 'idempotency-key': 'rules-1' }
      const early = { ...booking, end: '2026-03-01T11:00:00Z' }
      assert.equal((await send({ method: 'POST', url, payload: early, headers })).statusCode, 422)
      assert.equal((await send({ method: 'POST', url, payload: booking, headers })).statusCode, 201)
    })

    it('are described in the OpenAPI document', async () => {
      const { components } = (await send({ url: '/openapi.json' })).json()
      const { end, guests } = components.schemas.BookingCreate.properties
      assert.equal(end.description, 'When it ends; must not be before start')
      assert.equal(guests.description, 'Must not be more than seats')
    })
  })
})
