import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { service as define } from '../../../src/definition/service.ts'
import { Line } from '../../../src/http/text-rules.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Day, Instant, Title } from '../../../src/resources/field-types.ts'
import { appOn, type TestApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

/** The values that the functions in `set` and `defaults` return. A test can change them for one request. */
const returned = { region: 'eu' as string | null, code: (): unknown => 'C-1' }

const tickets = collection({
  path: '/tickets',
  noun: 'ticket',
  body: Type.Object({
    title: Title,
    status: Type.Enum(['draft', 'sent', 'paid']),
    tags: Type.Optional(Type.Array(Type.String())),
    due: Type.Optional(Day),
    code: Type.Optional(Line(1, 10, { description: 'The code' })),
    openedAt: Instant,
    region: Line(1, 10),
  }),
  filters: ['status', 'region'],
  defaults: {
    status: 'draft',
    tags: ['new'],
    due: ({ clock }) => new Date(clock().getTime() + 14 * 86_400_000).toISOString().slice(0, 10),
    code: () => returned.code() as string,
  },
  set: {
    openedAt: ({ clock }) => clock().toISOString(),
    region: () => returned.region as string,
  },
  rules: [
    {
      field: 'due',
      message: 'must not be before it is opened',
      holds: ({ due, openedAt }) => !due || due >= openedAt.slice(0, 10),
    },
  ],
})
const definition = define({ resources: [tickets] })
const scopes = 'tickets:read tickets:write'
const url = '/tickets'
const filled = {
  title: 'A',
  status: 'draft',
  tags: ['new'],
  due: '2026-03-15',
  code: 'C-1',
  openedAt: '2026-03-01T12:00:00.500Z',
  region: 'eu',
}

forEachEngine((engine) => {
  describe('`set` and `defaults` of new rows', () => {
    const service = appOn(engine, { definition })
    const send: TestApp['send'] = (request) => service.send({ scopes, ...request })
    const post = (payload: object, headers = {}) => send({ method: 'POST', url, payload, headers })
    const create = async (payload: object = { title: 'A' }) => {
      const answer = await post(payload)
      assert.equal(answer.statusCode, 201, answer.body)
      return answer.json()
    }
    const change = (method: 'PUT' | 'PATCH', id: number, payload: object, headers = {}) =>
      send({ method, url: `${url}/${id}`, payload, headers })
    const own = ({ id: _, createdAt: __, updatedAt: ___, ...rest }: Record<string, unknown>) => rest
    const count = async () => (await send({ url: `${url}?limit=200` })).json().length

    it('201 with the values from `set` and `defaults`; they are stored, and lists can be filtered by them', async () => {
      const made = await create()
      assert.deepEqual(own(made), filled)
      assert.deepEqual((await send({ url: `${url}/${made.id}` })).json(), made)
      assert.equal((await send({ url: `${url}?status=draft&region=EU` })).json().length, 1)
    })

    it("201 with the body's values, which override `defaults` but not `set`", async () => {
      const sent = { status: 'sent', tags: [], due: '2026-05-01', code: 'mine' }
      const made = await create({ title: 'A', ...sent, region: 7, openedAt: '1999-01-01T00:00:00Z' })
      assert.deepEqual(own(made), { ...filled, ...sent })
    })

    it('201 without a value if a default function returns undefined', async () => {
      returned.code = () => undefined
      const made = await create()
      returned.code = () => 'C-1'
      assert.ok(!('code' in made))
    })

    it('200 for a PUT without these fields, or with a value for a field in `set`; the stored values are kept', async () => {
      const { id } = await create({ title: 'A', status: 'sent' })
      service.clock.now += 1_000
      const put = await change('PUT', id, { title: 'B', region: 'us', openedAt: 7 })
      assert.deepEqual([put.statusCode, own(put.json())], [200, { ...filled, title: 'B', status: 'sent' }], put.body)
      const changed = await change('PUT', id, { title: 'B', status: 'paid', due: '2026-06-01', tags: [] })
      assert.deepEqual(own(changed.json()), { ...filled, title: 'B', status: 'paid', due: '2026-06-01', tags: [] })
      service.clock.now -= 1_000
    })

    it('200 for a PATCH: fields in `set` are ignored, null removes optional fields; 400 for other nulls', async () => {
      const { id } = await create()
      const patched = await change('PATCH', id, { region: 'us', openedAt: null, due: null, tags: null })
      const { due: _, tags: __, ...rest } = filled
      assert.deepEqual([patched.statusCode, own(patched.json())], [200, rest], patched.body)
      const refused = await change('PATCH', id, { status: null })
      assert.deepEqual([refused.statusCode, refused.json().errors[0].field], [400, 'status'])
    })

    it('422 for an invalid value despite a default, and for a PUT that breaks a rule on a stored value', async () => {
      assert.equal((await post({ title: 'A', status: 'lost' })).statusCode, 422)
      const { id } = await create()
      const put = await change('PUT', id, { title: 'A', due: '2026-02-01' })
      assert.deepEqual(put.json().errors, [{ field: 'due', message: 'must not be before it is opened' }])
    })

    it('400 for a field in `set` with handling=strict, because it is read-only', async () => {
      const strict = { prefer: 'handling=strict' }
      const errors = [{ field: 'region', message: 'is read-only' }]
      const { id } = await create()
      const before = await count()
      for (const answer of [
        await post({ title: 'A', region: 'us' }, strict),
        await change('PATCH', id, { region: 'us' }, strict),
      ]) {
        assert.deepEqual([answer.statusCode, answer.json().errors], [400, errors])
      }
      assert.equal(await count(), before)
    })

    it('403 if a function in `set` returns null; nothing is stored', async () => {
      const before = await count()
      returned.region = null
      const answer = await post({ title: 'A', region: 'us' })
      returned.region = 'eu'
      assert.deepEqual([answer.statusCode, answer.json().errorCode], [403, 'PERMISSION_DENIED'])
      assert.match(answer.json().detail, /cannot create a ticket: it needs region/)
      assert.equal(await count(), before)
    })

    const failures: [what: string, code: () => unknown, message: RegExp][] = [
      ['throws', () => assert.fail('a secret'), /^\/tickets: defaults\.code threw an error$/],
      [
        'returns an invalid value',
        () => 'x'.repeat(11),
        /^\/tickets: set or defaults returned an invalid value: code must not/,
      ],
      ['returns a promise', () => Promise.resolve('x'), /returned an invalid value: code must be string/],
    ]
    for (const [what, code, message] of failures) {
      it(`500 if a default function ${what}; nothing is stored`, async () => {
        const before = await count()
        returned.code = code
        const answer = await post({ title: 'A' })
        returned.code = () => 'C-1'
        assert.deepEqual([answer.statusCode, await count()], [500, before])
        assert.doesNotMatch(answer.body, /secret|code/)
        const [fault, ...others] = service.faults.splice(0) as Error[]
        assert.match(String(fault?.message), message)
        assert.deepEqual(others, [])
      })
    }

    it('201 with the first response when a creation is repeated with the same Idempotency-Key', async () => {
      const headers = { 'idempotency-key': 'creation-1' }
      const first = await post({ title: 'A' }, headers)
      service.clock.now += 1_000
      const second = await post({ title: 'A' }, headers)
      service.clock.now -= 1_000
      assert.deepEqual([second.statusCode, second.json()], [201, first.json()])
    })

    it('are documented in the OpenAPI schemas of POST, PUT and PATCH bodies and of responses', async () => {
      const { components, paths } = (await send({ url: '/openapi.json' })).json()
      const { TicketCreate: made, TicketReplace: put, TicketPatch: patch, Ticket: whole } = components.schemas
      assert.deepEqual(
        [made.required, put.required, Object.keys(made.properties)],
        [['title'], ['title'], ['title', 'status', 'tags', 'due', 'code']],
      )
      assert.deepEqual([made.properties.status.default, made.properties.tags.default], ['draft', ['new']])
      assert.equal(made.properties.code.description, 'The code; set by the service if it is absent')
      assert.ok(
        !('default' in put.properties.status) && !('region' in put.properties) && !('region' in patch.properties),
      )
      assert.ok(!('anyOf' in patch.properties.status) && 'anyOf' in patch.properties.due)
      assert.equal(whole.properties.region.readOnly, true)
      assert.ok(whole.required.includes('region') && whole.required.includes('status'))
      assert.match(paths[url].post.responses['403'].description, /PERMISSION_DENIED/)
    })
  })
})
