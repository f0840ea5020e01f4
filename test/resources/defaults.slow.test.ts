import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type TObject, Type } from 'typebox'
import { service as define } from '../../src/definition/service.ts'
import { reportKinds } from '../../src/mount-versions.ts'
import { type ReportKind, readOf } from '../../src/reports/report-types.ts'
import { collection } from '../../src/resources/collection.ts'
import { Instant, Title } from '../../src/resources/field-types.ts'
import { migrate } from '../../src/storage/migrate.ts'
import { openSnapshot } from '../../src/storage/open.ts'
import { appOn, successiveAppsOn, type TestApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const fields = {
  title: Title,
  status: Type.Enum(['Open', 'done'], { default: 'Open' }),
  topic: Type.Optional(Type.String({ maxLength: 50, default: 'Ärger' })),
  level: Type.Integer({ default: 3 }),
  weight: Type.Optional(Type.Number({ default: 0.5 })),
  isUrgent: Type.Boolean({ default: false }),
  since: Type.Optional(Type.String({ ...Instant, default: '2026-01-01T01:00:00+01:00' })),
  tags: Type.Array(Type.String(), { default: ['new'] }),
  place: Type.Optional(
    Type.Object({ city: Type.String(), country: Type.String({ default: 'DE' }), floor: Type.Optional(Type.Integer()) }),
  ),
  note: Type.Optional(Type.String()),
}
const filled = {
  status: 'Open',
  topic: 'Ärger',
  level: 3,
  weight: 0.5,
  isUrgent: false,
  since: '2026-01-01T00:00:00.000Z',
  tags: ['new'],
}
const others = {
  status: 'done',
  topic: 'x',
  level: 1,
  weight: 2,
  isUrgent: true,
  since: '2025-05-05T00:00:00.000Z',
  tags: [],
}

const ticketsOf = (body: TObject, more: object = {}) =>
  define({ resources: [collection({ path: '/tickets', noun: 'ticket', body, ...more })] })
const filters = ['status', 'topic', 'level', 'isUrgent', 'since']
const definition = ticketsOf(Type.Object(fields), { filters, ranges: ['level'], sorts: ['level'], search: ['topic'] })
const scopes = 'tickets:read tickets:write webhooks:write'
const url = '/tickets'

forEachEngine((engine) => {
  describe('a field with a default', () => {
    const service = appOn(engine, { definition })
    const send: TestApp['send'] = (request) => service.send({ scopes, ...request })
    const create = async (payload: object) => {
      const answer = await send({ method: 'POST', url, payload })
      assert.equal(answer.statusCode, 201, answer.body)
      return answer.json()
    }
    const stored = async (id: number) => {
      const row = await service.db.read
        .selectFrom('resourceTickets' as 'products')
        .selectAll()
        .where('id', '=', id)
        .executeTakeFirst()
      return row as unknown as Record<string, unknown>
    }
    /** Returns a representation without `title` and without the fields that the service sets. */
    const own = ({ id: _, title: __, createdAt: ___, updatedAt: ____, ...rest }: Record<string, unknown>) => rest

    it('201 with the default for a missing field, which is also stored', async () => {
      const made = await create({ title: 'A' })
      assert.deepEqual(own(made), filled)
      const { status, topic, topicKey, level, weight, isUrgent, since, tags, place } = await stored(made.id)
      assert.deepEqual(
        [status, topic, topicKey, Number(level), weight, isUrgent, since, tags, place],
        ['Open', 'Ärger', 'ärger', 3, 0.5, 0, '2026-01-01T00:00:00.000Z', '["new"]', null],
      )
      for (const path of [`${url}/${made.id}`, `/v2${url}/${made.id}`]) {
        assert.deepEqual((await send({ url: path })).json(), made)
      }
      const listed = (await send({ url: `${url}?sort=-createdAt,-id&limit=200` })).json()
      assert.deepEqual(
        listed.find(({ id }: { id: number }) => id === made.id),
        made,
      )
    })

    it('201 with the sent value instead of the default', async () => {
      assert.deepEqual(own(await create({ title: 'B', ...others })), others)
    })

    it('201 with the defaults of fields inside objects', async () => {
      const { place } = await create({ title: 'C', place: { city: 'Ulm' } })
      assert.deepEqual(place, { city: 'Ulm', country: 'DE' })
      assert.deepEqual((await create({ title: 'C', place: { city: 'Bern', country: 'CH' } })).place.country, 'CH')
    })

    it('200 with the rows that have the default when filtering by its value', async () => {
      const { id } = await create({ title: 'D' })
      const { id: other } = await create({ title: 'E', ...others })
      const queries = ['status=Open', 'topic=%C3%84RGER', 'level=3', 'isUrgent=false', 'minLevel=3', 'q=rger']
      for (const query of [...queries, 'since=2026-01-01T00:00:00Z']) {
        const found = (await send({ url: `${url}?${query}&limit=200` })).json().map((row: { id: number }) => row.id)
        assert.deepEqual([found.includes(id), found.includes(other)], [true, false], query)
      }
    })

    it('200 with the default after a PUT that omits the field', async () => {
      const { id } = await create({ title: 'F', ...others, note: 'x' })
      const changed = await send({ method: 'PUT', url: `${url}/${id}`, payload: { title: 'F' } })
      assert.deepEqual([changed.statusCode, own(changed.json())], [200, filled])
      assert.deepEqual((await send({ url: `${url}/${id}` })).json(), changed.json())
    })

    it('200 with the default after a PATCH that removes the field; other fields do not change', async () => {
      const { id } = await create({ title: 'G', ...others })
      const patch = (payload: object) => send({ method: 'PATCH', url: `${url}/${id}`, payload })
      assert.deepEqual(own((await patch({ title: 'H' })).json()), others)
      const changed = await patch({ topic: null, level: null, place: { city: 'Ulm' } })
      const expected = { ...others, topic: filled.topic, level: filled.level, place: { city: 'Ulm', country: 'DE' } }
      assert.deepEqual([changed.statusCode, own(changed.json())], [200, expected])
      const again = await patch({ place: { country: null, floor: 2 } })
      assert.deepEqual(again.json().place, { city: 'Ulm', country: 'DE', floor: 2 })
    })

    it('400 for null on creation and 422 for an invalid value, despite the default', async () => {
      const refused = async (payload: object) => (await send({ method: 'POST', url, payload })).statusCode
      assert.equal(await refused({ title: 'I', level: null }), 400)
      assert.equal(await refused({ title: 'I', status: 'lost' }), 422)
      assert.equal(await refused({ title: 'I', place: {} }), 400)
    })

    it('appears with its default in events and reports', async () => {
      const hook = { event: 'ticket.created', callbackUrl: 'http://127.0.0.1:9/hook' }
      assert.equal((await send({ method: 'POST', url: '/api/webhooks', payload: hook })).statusCode, 201)
      const made = await create({ title: 'J', place: { city: 'Ulm' } })
      const { body } = await service.db.read
        .selectFrom('events')
        .select('body')
        .orderBy('id', 'desc')
        .executeTakeFirstOrThrow()
      const event = typeof body === 'string' ? JSON.parse(body) : body
      assert.deepEqual(event, made)
      const [kind] = reportKinds(definition) as [ReportKind]
      const snapshot = await openSnapshot(service.db.url)
      const query = readOf(
        service.db,
        kind,
        { filter: { topic: 'ärger', isUrgent: false } },
        { clientId: '', subject: '', isAdmin: false },
      )
      const rows = (await Array.fromAsync(snapshot.pages(query)).finally(snapshot.close)).flat()
      const cells = rows.find((row) => row.includes('J'))
      const shown = Object.fromEntries(kind.columns.map(({ name }, at) => [name, cells?.[at]]))
      assert.deepEqual([shown.status, shown.level, shown.isUrgent, shown.tags], ['Open', 3, false, '["new"]'])
      assert.deepEqual(
        [shown.topic, shown.since, shown.place],
        ['Ärger', filled.since, '{"city":"Ulm","country":"DE"}'],
      )
    })

    it('is optional in OpenAPI request bodies, which state the default, and required in responses', async () => {
      const document = (await send({ url: '/openapi.json' })).json()
      const at = (schema: { $ref?: string }) =>
        schema.$ref ? document.components.schemas[schema.$ref.split('/').at(-1) as string] : schema
      const content = document.paths[url].post.requestBody.content['application/json']
      const body = at(content.schema)
      assert.deepEqual(body.required, ['title'])
      assert.equal(body.properties.status.default ?? at(body.properties.status).default, 'Open')
      const answer = at(document.paths[url].post.responses['201'].content['application/json'].schema)
      for (const name of ['status', 'level', 'isUrgent', 'tags']) assert.ok(answer.required.includes(name), name)
    })
  })

  describe('a default added by a later definition', () => {
    const { state, start: startApp } = successiveAppsOn(engine)
    const at = Date.parse('2026-04-01T12:00:00.000Z')

    /** Starts an app for a definition, after migrating its tables. */
    const start = async (body: TObject, more: object = {}) => {
      const made = ticketsOf(body, more)
      const { done, service } = await startApp(made, () => at)
      return { done, send: (request: Parameters<TestApp['send']>[0]) => service.send({ scopes, ...request }) }
    }

    const stages: [what: string, earlier: TObject][] = [
      ['a new field', Type.Object({ title: Title })],
      ['a field that had none', Type.Object({ title: Title, topic: Type.Optional(Type.String({ maxLength: 50 })) })],
    ]
    for (const [what, earlier] of stages) {
      for (const isRequired of [true, false]) {
        it(`is stored in existing rows, with a new ETag: ${what}, ${isRequired ? '' : 'not '}required`, async () => {
          const old = await start(earlier)
          for (const title of ['A', 'B']) await old.send({ method: 'POST', url, payload: { title } })
          const before = await old.send({ url: `${url}/1` })
          const topic = Type.String({ maxLength: 50, default: 'Ärger' })
          const body = Type.Object({ title: Title, topic: isRequired ? topic : Type.Optional(topic) })
          const { send, done } = await start(body, { filters: ['topic'] })
          assert.ok(done.includes('-- fill resource_tickets.topic with its default in 2 rows'), done.join('\n'))
          const now = await send({ url: `${url}/1` })
          assert.deepEqual([now.json().topic, now.json().updatedAt], ['Ärger', '2026-04-01T12:00:00.000Z'])
          assert.deepEqual([before.headers.etag, now.headers.etag], ['"1"', '"2"'])
          const tag = { 'if-none-match': String(before.headers.etag) }
          assert.equal((await send({ url: `${url}/1`, headers: tag })).statusCode, 200)
          assert.equal((await send({ url: `${url}?topic=%C3%A4rger` })).json().length, 2)
          const tables = ticketsOf(body, { filters: ['topic'] }).tables
          assert.deepEqual(await migrate(state.db, { tables, now: () => at }), [])
        })
      }
    }

    it('does not change values stored from an earlier default; new rows get the later one', async () => {
      const of = (value: string) => Type.Object({ title: Title, topic: Type.String({ default: value }) })
      const old = await start(of('first'))
      await old.send({ method: 'POST', url, payload: { title: 'A' } })
      const { send } = await start(of('second'))
      const kept = await send({ url: `${url}/1` })
      assert.deepEqual([kept.json().topic, kept.headers.etag], ['first', '"1"'])
      assert.equal((await send({ method: 'POST', url, payload: { title: 'B' } })).json().topic, 'second')
    })
  })
})
