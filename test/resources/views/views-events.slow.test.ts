import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { afterEach, before, describe, it } from 'node:test'
import { eventShapes } from '../../../src/event-shapes.ts'
import { versionLifecycles } from '../../../src/version-lifecycle.ts'
import { fanOut } from '../../../src/webhooks/dispatch/fan-out.ts'
import { appOn, type TestApp } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { noRules } from '../../support/webhooks.ts'
import { definition, scopes } from './service.ts'

const onError = (error: unknown): never => assert.fail(String(error))

forEachEngine((engine) => {
  describe('the events of a resource with a view', () => {
    const app = appOn(engine, { definition })
    const send: TestApp['send'] = (request) => app.send({ scopes, ...request })
    let customerId = 0
    let made = 0
    before(async () => {
      customerId = (await send({ method: 'POST', url: '/v2/customers', payload: { name: 'Ada' } })).json().id
    })
    afterEach(async () => {
      for (const table of ['webhooks', 'events', 'deliveries'] as const) {
        await app.db.write((tx) => tx.deleteFrom(table).execute())
      }
    })
    const register = (more: object = {}) =>
      send({
        ...{ method: 'POST', url: '/v1/api/webhooks' },
        payload: { event: 'invoice.*', callbackUrl: `http://127.0.0.1:9/${++made}`, ...more },
      })
    const listen = async (more: object = {}): Promise<{ id: string; version?: string }> => {
      const registered = await register(more)
      assert.equal(registered.statusCode, 201, registered.body)
      return registered.json()
    }
    const create = async (url: string): Promise<number> => {
      const number = `E-${++made}`
      const own = {
        reference: number,
        customerId,
        issued: '2026-03-01',
        total: `${made}.00`,
        currency: 'EUR',
        origin: 'x',
      }
      const inV1 = { number, clientId: customerId, issuedOn: '2026-03-01', amount: `${made}.00` }
      const created = await send({ method: 'POST', url, payload: url.startsWith('/v1') ? inV1 : own })
      assert.equal(created.statusCode, 201, created.body)
      return created.json().id
    }
    /** Fans out every event, as the worker does; returns the events and each webhook's deliveries. */
    const delivered = async (plans: Parameters<typeof versionLifecycles>[1] = {}) => {
      const shapes = eventShapes(definition, versionLifecycles(definition, plans))
      const work = fanOut({
        ...{ db: app.db, now: () => app.clock.now, random: randomBytes, shapes },
        ...{ access: noRules, queue: { enqueue: onError }, onError },
      })
      const events = await app.db.read.selectFrom('events').select(['id', 'body']).orderBy('createdAt').execute()
      const payloads = events.map(({ id }) => ({ eventId: id }))
      await work({ payloads, signal: new AbortController().signal, finish: async () => {} })
      const rows = await app.db.read.selectFrom('deliveries').select(['webhookId', 'body']).orderBy('eventId').execute()
      return { events, bodies: Map.groupBy(rows, ({ webhookId }) => webhookId) }
    }

    it('are stored with the collection’s field names, and delivered with those of the webhook’s version', async () => {
      const [one, two, byDefault] = [await listen({ version: 'v1' }), await listen({ version: 'v2' }), await listen()]
      const enveloped = await listen({ version: 'v1', payloadStyle: 'envelope' })
      assert.deepEqual([one.version, two.version, byDefault.version], ['v1', 'v2', 'v2'])
      const id = await create('/v1/invoices')
      app.clock.now += 1_000
      await send({ method: 'PATCH', url: `/v1/invoices/${id}`, payload: { note: 'changed' } })
      app.clock.now += 1_000
      await send({ method: 'DELETE', url: `/v1/invoices/${id}` })
      const { events, bodies } = await delivered()
      const bodiesOf = (webhook: { id: string }) => (bodies.get(webhook.id) ?? []).map(({ body }) => JSON.parse(body))
      const stored = events.map(({ body }) => JSON.parse(body))
      assert.equal(stored[0].reference, `E-${made}`)
      assert.deepEqual([stored[0].currency, stored[1].remark, stored[2]], ['EUR', 'changed', { id }])
      assert.deepEqual(bodiesOf(two), stored)
      assert.deepEqual(
        (bodies.get(byDefault.id) ?? []).map(({ body }) => body),
        events.map(({ body }) => body),
        'the stored bytes',
      )
      const [created, updated, deleted] = bodiesOf(one)
      const { createdAt, updatedAt, _links, ...shown } = created
      assert.deepEqual(shown, {
        ...{
          id,
          number: `E-${made}`,
          clientId: customerId,
          status: 'draft',
          issuedOn: '2026-03-01',
          amount: `${made}.00`,
        },
      })
      assert.equal(updated.note, 'changed')
      assert.deepEqual(deleted, { id })
      assert.deepEqual(
        bodiesOf(enveloped).map(({ data }) => data),
        [created, updated, deleted],
      )
    })

    it('use the next version’s field names once the webhook’s version is retired', async () => {
      const { id } = await listen({ version: 'v1' })
      await create('/v2/invoices')
      const { events, bodies } = await delivered({
        v1: { status: 'retired', deprecatedAt: null, sunsetAt: null, successor: 'v2' },
      } as never)
      assert.deepEqual(
        (bodies.get(id) ?? []).map(({ body }) => body),
        events.map(({ body }) => body),
      )
    })

    it('use the newest field names for webhooks without a stored version', async () => {
      const { id } = await listen({ version: 'v1' })
      await app.db.write((tx) => tx.updateTable('webhooks').set({ version: null }).where('id', '=', id).execute())
      const shown = (await send({ url: `/api/webhooks/${id}` })).json()
      assert.equal('version' in shown, false)
      await create('/v2/invoices')
      const { events, bodies } = await delivered()
      assert.equal(bodies.get(id)?.[0]?.body, events[0]?.body)
    })

    it('can be received in another version: 200 for changing the webhook’s version, 422 for an unknown version', async () => {
      const { id } = await listen()
      const changed = await send({ method: 'PATCH', url: `/api/webhooks/${id}`, payload: { version: 'v1' } })
      assert.deepEqual([changed.statusCode, changed.json().version], [200, 'v1'])
      assert.equal((await send({ url: `/api/webhooks/${id}` })).json().version, 'v1')
      assert.deepEqual(
        (await send({ url: '/api/webhooks' })).json().map(({ version }: { version: string }) => version),
        ['v1'],
      )
      for (const version of ['v3', 'newest', '']) {
        const refused = await register({ version })
        assert.equal(refused.statusCode, 422, refused.body)
        assert.match(refused.body, /"version".*must be one of v1, v2/)
      }
      const typed = await register({ version: 1 })
      assert.equal(typed.statusCode, 400, typed.body)
      const patched = await send({ method: 'PATCH', url: `/api/webhooks/${id}`, payload: { version: 'v3' } })
      assert.equal(patched.statusCode, 422, patched.body)
    })

    it('are documented with the field names of each version', async () => {
      const typesOf = async (prefix: string) => {
        const types: { event: string; schema: { properties: object }; example: object }[] = (
          await send({ url: `${prefix}/api/event-types` })
        ).json()
        return types.find(({ event }) => event === 'invoice.created')
      }
      const [v1, v2] = [await typesOf('/v1'), await typesOf('/v2')]
      assert.ok('number' in (v1?.schema.properties ?? {}) && 'number' in (v1?.example ?? {}))
      for (const name of ['reference', 'currency', 'origin', 'pin']) {
        assert.equal(name in (v1?.schema.properties ?? {}), false, name)
        assert.equal(name in (v1?.example ?? {}), false, name)
      }
      assert.ok('reference' in (v2?.schema.properties ?? {}) && 'currency' in (v2?.schema.properties ?? {}))
      for (const [prefix, own, foreign] of [
        ['/v1', 'number', 'reference'],
        ['/v2', 'reference', 'number'],
      ] as const) {
        const document = (await send({ url: `${prefix}/openapi.json` })).json()
        const { schema } = document.webhooks['invoice.created'].post.requestBody.content['application/json']
        const text = JSON.stringify(schema.$ref ? document.components.schemas[schema.$ref.split('/').at(-1)] : schema)
        assert.ok(text.includes(`"${own}":`) && !text.includes(`"${foreign}":`), text)
      }
    })
  })
})
