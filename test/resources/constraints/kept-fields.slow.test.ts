import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { service as define } from '../../../src/definition/service.ts'
import { Line } from '../../../src/http/text-rules.ts'
import { reportKinds } from '../../../src/mount-versions.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Instant, Title } from '../../../src/resources/field-types.ts'
import { appOn, type TestApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const cards = collection({
  path: '/cards',
  noun: 'card',
  body: Type.Object(
    {
      title: Title,
      pin: Type.String({ pattern: '^[0-9]{4}$' }),
      hint: Type.Optional(Type.Object({ text: Type.String() })),
      tenant: Line(1, 40, { description: 'The owner' }),
      openedAt: Type.Optional(Instant),
      place: Type.Optional(Type.Object({ city: Type.String(), floor: Type.Optional(Type.Integer()) })),
      level: Type.Optional(Type.Integer({ default: 1 })),
    },
    { examples: [{ title: 'A', pin: '1234', tenant: 'north' }] },
  ),
  filters: ['tenant'],
  writeOnly: ['pin', 'hint'],
  immutable: ['tenant', 'openedAt', 'place', 'level'],
  links: ({ id }) => ({ self: { href: `/cards/${id}` } }),
})
/**
 * This collection has neither links nor optional fields, so responses contain every field except the write-only one.
 */
const keys = collection({
  path: '/keys',
  noun: 'key',
  body: Type.Object({ title: Title, secret: Line(1, 40) }),
  writeOnly: ['secret'],
})
const definition = define({ resources: [cards, keys] })
const scopes = 'cards:read cards:write keys:read keys:write reports:read reports:write webhooks:read webhooks:write'
const url = '/cards'
const card = { title: 'A', pin: '1234', hint: { text: 'a hint' }, tenant: 'north' }

forEachEngine((engine) => {
  const service = appOn(engine, { definition })
  const send: TestApp['send'] = (request) => service.send({ scopes, ...request })
  const create = async (payload: object = card) => {
    const answer = await send({ method: 'POST', url, payload })
    assert.equal(answer.statusCode, 201, answer.body)
    return answer.json()
  }
  const change = (method: 'PUT' | 'PATCH', id: number, payload: object, headers = {}) =>
    send({ method, url: `${url}/${id}`, payload, headers })
  const stored = async (id: number, table = 'resourceCards') =>
    (await service.db.read
      .selectFrom(table as 'products')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirst()) as unknown as Record<string, unknown>

  describe('a write-only field', () => {
    // Matches only whole words, because a random id may contain these characters.
    const hasNone = (body: string) => assert.doesNotMatch(body, /\b(1234|4321|pin|hint)\b|top-secret|"secret"/)

    it('is stored, but absent from responses, lists and events (T-API-04)', async () => {
      const subscription = { event: 'card.*', callbackUrl: 'http://127.0.0.1:9/cards' }
      const hook = await send({ method: 'POST', url: '/api/webhooks', payload: subscription })
      assert.equal(hook.statusCode, 201, hook.body)
      const { id } = await create()
      assert.equal((await stored(id)).pin, '1234')
      const answers = [
        await send({ method: 'POST', url, payload: card }),
        await send({ url: `${url}/${id}` }),
        await send({ url: `${url}/${id}` }),
        await send({ url: `/v2${url}/${id}`, headers: { 'if-none-match': '"9"' } }),
        await change('PUT', id, { ...card, title: 'B', pin: '4321' }),
        await change('PATCH', id, { pin: '4321' }),
        await send({ url }),
        await send({ url: `/v2${url}` }),
        await send({ url: `${url}?fields=title` }),
      ]
      for (const answer of answers) {
        assert.ok([200, 201].includes(answer.statusCode), answer.body)
        hasNone(answer.body)
      }
      assert.equal((await stored(id)).pin, '4321')
      const events = await service.db.read.selectFrom('events').select('body').execute()
      assert.equal(events.length, 4)
      for (const { body } of events) hasNone(body)
      hasNone(JSON.stringify((await send({ url: `${url}?fields=pin,hint` })).json()).replaceAll(/fields=[^"]*/g, ''))
    })

    it('is absent from responses of a resource without optional fields', async () => {
      const made = await send({ method: 'POST', url: '/keys', payload: { title: 'K', secret: 'top-secret' } })
      hasNone(made.body)
      const { id } = made.json()
      for (const path of [`/keys/${id}`, '/keys', '/v2/keys']) hasNone((await send({ url: path })).body)
      assert.equal((await stored(id, 'resourceKeys')).secret, 'top-secret')
    })

    it('is neither a report column nor a query parameter', async () => {
      const [kind] = reportKinds(definition)
      const columns = kind?.columns.map(({ name }) => name)
      assert.ok(columns?.includes('tenant') && !columns.includes('pin') && !columns.includes('hint'))
      const payload = { reportType: 'cards', format: 'json', parameters: { fields: ['pin'] } }
      assert.equal((await send({ method: 'POST', url: '/api/reports', payload })).statusCode, 422)
      for (const query of ['pin=1234', 'sort=pin']) {
        assert.equal((await send({ url: `${url}?${query}` })).statusCode, 400, query)
      }
    })

    it('keeps its value in a PUT that omits it; null in a PATCH removes it only if it is optional', async () => {
      const { pin: _, ...others } = card
      assert.equal((await send({ method: 'POST', url, payload: others })).statusCode, 400)
      const { id } = await create()
      assert.equal((await change('PUT', id, { title: 'B' })).statusCode, 200)
      const { title, pin, hint } = await stored(id)
      assert.deepEqual([title, pin, hint], ['B', '1234', '{"text":"a hint"}'])
      assert.equal((await change('PATCH', id, { title: 'C' })).statusCode, 200)
      assert.equal((await change('PATCH', id, { hint: null })).statusCode, 200)
      assert.deepEqual([(await stored(id)).pin, (await stored(id)).hint], ['1234', null])
      assert.deepEqual((await change('PATCH', id, { pin: null })).json().errors, [
        { field: 'pin', message: 'is required' },
      ])
      assert.equal((await change('PUT', id, { title: 'B', pin: 'x' })).statusCode, 422)
    })

    it('is writeOnly in the request bodies in OpenAPI, and absent from the schemas of rows and events', async () => {
      const document = (await send({ url: '/openapi.json' })).json()
      const { schemas } = document.components
      const bodyOf = (operation: { requestBody: { content: Record<string, { schema: { $ref: string } }> } }) =>
        schemas[String(Object.values(operation.requestBody.content)[0]?.schema.$ref.split('/').at(-1))]
      const [post, put, patch] = [
        bodyOf(document.paths[url].post),
        bodyOf(document.paths[`${url}/{id}`].put),
        bodyOf(document.paths[`${url}/{id}`].patch),
      ]
      assert.deepEqual([post.properties.pin.writeOnly, put.properties.pin.writeOnly], [true, true])
      assert.deepEqual([post.required, put.required], [['title', 'pin', 'tenant'], ['title']])
      assert.deepEqual([patch.properties.pin.writeOnly, patch.properties.hint.anyOf.length], [true, 2])
      assert.equal(post.properties.pin.description, 'Never returned; kept by a PUT without it')
      assert.equal(put.properties.tenant.description, 'The owner; cannot be changed; kept by a PUT without it')
      assert.ok(!('pin' in schemas.Card.properties) && 'tenant' in schemas.Card.properties)
      assert.doesNotMatch(JSON.stringify(document.webhooks['card.created']), /pin|hint/)
    })
  })

  describe('an immutable field', () => {
    const fixed = { openedAt: '2026-03-01T12:00:00.000Z', place: { city: 'Ulm', floor: 1 } }

    it('200 when a PUT omits it or contains the same value', async () => {
      const { id } = await create({ ...card, ...fixed, level: 3 })
      const same = [
        { title: 'B' },
        { title: 'B', tenant: ' north ' },
        { title: 'B', openedAt: '2026-03-01T13:00:00+01:00', place: { floor: 1, city: 'Ulm' }, level: 3 },
      ]
      for (const payload of same) {
        const answer = await change('PUT', id, payload)
        const { tenant, openedAt, place, level } = answer.json()
        assert.deepEqual([answer.statusCode, tenant, level], [200, 'north', 3], answer.body)
        assert.deepEqual({ openedAt, place }, fixed)
      }
      assert.equal((await stored(id)).pin, '1234')
    })

    const changed: [method: 'PUT' | 'PATCH', payload: object, fields: string[]][] = [
      ['PUT', { title: 'B', tenant: 'south' }, ['tenant']],
      ['PUT', { title: 'B', tenant: 'North' }, ['tenant']],
      ['PUT', { title: 'B', level: 2, place: { city: 'Ulm' } }, ['place', 'level']],
      ['PATCH', { tenant: 'south' }, ['tenant']],
      ['PATCH', { openedAt: null }, ['openedAt']],
      ['PATCH', { place: { floor: 2 } }, ['place']],
      ['PATCH', { level: null, title: 'B' }, ['level']],
    ]
    for (const [method, payload, fields] of changed) {
      it(`422 for a ${method} of ${JSON.stringify(payload)}, and nothing changes`, async () => {
        const { id } = await create({ ...card, ...fixed, level: 3 })
        const answer = await change(method, id, payload)
        const errors = fields.map((field) => ({ field, message: 'cannot be changed' }))
        assert.deepEqual([answer.statusCode, answer.json().errorCode], [422, 'VALIDATION_ERROR'], answer.body)
        assert.deepEqual(answer.json().errors, errors)
        const after = await send({ url: `${url}/${id}` })
        assert.deepEqual([after.json().title, after.headers.etag], ['A', '"1"'])
      })
    }

    it('422 for setting a value if the row was created without one', async () => {
      const { id } = await create()
      assert.equal((await change('PATCH', id, { openedAt: fixed.openedAt })).statusCode, 422)
      assert.equal((await change('PUT', id, { title: 'B', openedAt: fixed.openedAt })).statusCode, 422)
    })

    it('404 for a PUT to a missing row, 412 if If-Match does not match', async () => {
      const payload = { title: 'B', tenant: 'north' }
      assert.equal((await change('PUT', 987_654, payload)).statusCode, 404)
      const { id } = await create()
      assert.equal((await change('PUT', id, payload, { 'if-match': '"7"' })).statusCode, 412)
      assert.equal((await change('PUT', id, payload, { 'if-match': '"1"' })).headers.etag, '"2"')
    })

    it('200 for concurrent PUTs, each with its own revision', async () => {
      const { id } = await create()
      const puts = Array.from({ length: 4 }, (_, at) => change('PUT', id, { title: `T${at}`, tenant: 'north' }))
      const answers = await Promise.all(puts)
      assert.deepEqual(answers.map(({ headers }) => headers.etag).sort(), ['"2"', '"3"', '"4"', '"5"'])
    })
  })
})
