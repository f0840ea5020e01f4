import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, it } from 'node:test'
import { Type } from 'typebox'
import { service as define } from '../../../src/definition/service.ts'
import { createClient } from '../../../src/oauth/clients/clients.ts'
import { collection } from '../../../src/resources/collection.ts'
import { Day, Title } from '../../../src/resources/field-types.ts'
import { Ref } from '../../../src/resources/relations/ref.ts'
import { sealer } from '../../../src/storage/encryption.ts'
import { appOn, type TestApp, token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'

const plans = collection({
  path: '/plans',
  noun: 'plan',
  body: Type.Object({ title: Title, due: Day, note: Type.Optional(Title) }),
  listed: ['title', 'label', 'age'],
  computed: { stepCount: { count: 'steps' }, over: { when: { due: { before: '2026-01-01' } } } },
  derived: {
    label: {
      body: Title,
      from: ({ title, stepCount, over }) => {
        if (title === 'bad') throw new Error('no label')
        return `${title}: ${stepCount} steps${over ? ', over' : ''}`
      },
    },
    age: {
      body: Type.Integer(),
      from: ({ createdAt }, clock) => Math.floor((+clock() - Date.parse(createdAt)) / 1_000),
    },
    upper: { body: Title, from: ({ note }) => note?.toUpperCase() },
  },
})
const steps = collection({
  path: '/steps',
  noun: 'step',
  body: Type.Object({ planId: Ref(plans), title: Title }),
  derived: { short: { body: Title, from: ({ title }) => title.slice(0, 3) } },
})
const definition = define({ resources: [plans, steps] })
const scopes = 'plans:read plans:write steps:read steps:write'
const seal = sealer(Buffer.alloc(32, 1), randomBytes)

forEachEngine((engine) => {
  describe('a derived field', () => {
    const service = appOn(engine, { prefixes: [''], definition })
    const send: TestApp['send'] = (request) => service.send({ scopes, ...request })
    const create = async (url: string, payload: object) => {
      const answer = await send({ method: 'POST', url, payload })
      assert.equal(answer.statusCode, 201, answer.body)
      return answer.json()
    }
    const plan = (more = {}) => create('/plans', { title: 'Move', due: '2026-05-01', ...more })

    it('is included in responses, lists and expanded rows, and cannot be written', async () => {
      const made = await plan({ label: 'Own', due: '2025-05-01', note: 'now' })
      assert.deepEqual([made.label, made.age, made.upper], ['Move: 0 steps, over', 0, 'NOW'])
      const step = await create('/steps', { planId: made.id, title: 'Pack' })
      assert.equal(step.short, 'Pac')
      const [url, stepUrl] = [`/plans/${made.id}`, `/steps/${step.id}`]
      assert.equal((await send({ url })).json().label, 'Move: 1 steps, over')
      const { plan: expanded } = (await send({ url: `${stepUrl}?expand=plan` })).json()
      assert.deepEqual(expanded, { title: 'Move', label: 'Move: 1 steps, over', age: 0 })
      const [listed] = (await send({ url: `${url}/steps` })).json()
      assert.equal(listed.short, 'Pac')
      const patched = await send({ method: 'PATCH', url, payload: { note: null, label: 'x' } })
      assert.deepEqual([patched.json().upper, patched.json().label], [undefined, 'Move: 1 steps, over'])
    })

    it('cannot be used in filters or sorts', async () => {
      assert.equal((await send({ url: '/plans?label=x' })).statusCode, 400)
      assert.equal((await send({ url: '/plans?sort=label' })).statusCode, 400)
    })

    it('that uses the clock changes the ETag when its value changes; a write still accepts the old ETag', async () => {
      const { id } = await plan()
      const url = `/plans/${id}`
      const [first, list] = [await send({ url }), await send({ url: '/plans?limit=100' })]
      assert.match(String(first.headers.etag), /^"1\.[0-9a-f]{16}"$/)
      const headers = { 'if-none-match': String(first.headers.etag) }
      assert.equal((await send({ url, headers })).statusCode, 304)
      service.clock.now += 60_000
      const later = await send({ url, headers })
      assert.deepEqual([later.statusCode, later.json().age], [200, 60])
      const listed = await send({ url: '/plans?limit=100', headers: { 'if-none-match': String(list.headers.etag) } })
      assert.equal(listed.json().at(-1).age, 60)
      const patched = await send({
        method: 'PATCH',
        url,
        payload: { title: 'B' },
        headers: { 'if-match': headers['if-none-match'] },
      })
      assert.equal(patched.statusCode, 200)
      const step = await create('/steps', { planId: id, title: 'Pack' })
      assert.equal((await send({ url: `/steps/${step.id}` })).headers.etag, '"1"')
    })

    it('500 if its function throws, with the field named in the log; nothing is stored', async () => {
      const before = (await send({ url: '/plans?limit=100' })).json().length
      const answer = await send({ method: 'POST', url: '/plans', payload: { title: 'bad', due: '2026-05-01' } })
      assert.equal(answer.statusCode, 500)
      assert.doesNotMatch(answer.body, /no label/)
      const [fault] = service.faults.splice(0) as Error[]
      assert.equal(fault?.message, '/plans: derived.label threw an error')
      assert.equal((await send({ url: '/plans?limit=100' })).json().length, before)
    })

    it('is included in event bodies', async () => {
      const listener = { id: 'cli_listener', name: 'Listener', scopes: scopes.split(' ') }
      await createClient(service.db, seal, definition.scopes, { ...listener, grants: ['client_credentials'] })
      await service.send({
        ...{ method: 'POST', url: '/api/webhooks', token: token(`webhooks:write ${scopes}`, 'cli_listener') },
        payload: { event: 'plan.created', callbackUrl: 'http://127.0.0.1:9/1' },
      })
      await plan()
      const { body } = await service.db.read.selectFrom('events').select('body').executeTakeFirstOrThrow()
      assert.equal(JSON.parse(String(body)).label, 'Move: 0 steps')
    })
  })
})
