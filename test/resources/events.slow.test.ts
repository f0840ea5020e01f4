import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, afterEach, before, describe, it } from 'node:test'
import { operator } from '../../src/audit/chain.ts'
import { builtIn } from '../../src/catalog/service.ts'
import { createClient } from '../../src/oauth/clients/clients.ts'
import { revokeClient } from '../../src/oauth/clients/update.ts'
import type { Database } from '../../src/storage/database.ts'
import { sealer } from '../../src/storage/encryption.ts'
import { fanOut } from '../../src/webhooks/dispatch/fan-out.ts'
import { type TestApp, testApp, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { noRules } from '../support/webhooks.ts'

const seal = sealer(Buffer.alloc(32, 1), randomBytes)
const all = 'webhooks:read webhooks:write users:read users:write products:write books:write'

forEachEngine((engine) => {
  describe('events of resources', () => {
    let db: Database
    let service: TestApp
    before(async () => {
      db = await engine.database()
      service = await testApp(db)
    })
    after(async () => {
      await service.app.close()
      await db.close()
      assert.deepEqual(service.faults, [])
    })
    afterEach(async () => {
      for (const table of ['webhooks', 'events', 'deliveries'] as const) {
        await db.write((tx) => tx.deleteFrom(table).execute())
      }
    })

    let made = 0
    const client = async (scopes = all) => {
      const wanted = { id: `cli_events_${++made}`, name: 'Listener', scopes: scopes.split(' ') }
      await createClient(db, seal, builtIn.scopes, { ...wanted, grants: ['client_credentials'] })
      return wanted.id
    }
    const register = (event: string, clientId: string, scopes = all, more: object = {}) =>
      service.send({
        method: 'POST',
        url: '/api/webhooks',
        payload: { event, callbackUrl: `http://127.0.0.1:9/${++made}`, ...more },
        token: token(scopes, clientId),
      })
    const listen = async (event: string, clientId: string, scopes = all, more: object = {}): Promise<string> => {
      const answer = await register(event, clientId, scopes, more)
      assert.equal(answer.statusCode, 201, answer.body)
      return answer.json().id
    }
    const send = (method: 'POST' | 'PUT' | 'PATCH' | 'DELETE', url: string, payload?: object) =>
      service.send({ method, url, ...(payload && { payload }), token: token(all, 'cli_writer') })
    const events = () => db.read.selectFrom('events').selectAll().orderBy('createdAt').orderBy('type').execute()
    const user = () => ({ name: 'Ada', email: `e${++made}@example.com`, phone: '+1 555', address: '1 Main St' })
    const product = { name: 'Lamp', price: 1.5 }

    /** Fans out every event, as the worker does, and returns the deliveries. */
    const deliveries = async (): Promise<{ webhookId: string | null; body: string }[]> => {
      const onError = () => assert.fail()
      const options = { db, now: Date.now, random: randomBytes, access: noRules, queue: { enqueue: onError }, onError }
      const work = fanOut(options)
      const payloads = (await events()).map(({ id }) => ({ eventId: id }))
      await work({ payloads, signal: new AbortController().signal, finish: async () => {} })
      return db.read.selectFrom('deliveries').select(['webhookId', 'body']).orderBy('id').execute()
    }

    it('are not recorded unless a webhook currently subscribes to them', async () => {
      const listener = await client()
      await listen('book.created', listener)
      await listen('report.*', listener)
      const paused = await listen('product.created', listener)
      await db.write((tx) => tx.updateTable('webhooks').set({ status: 'paused' }).where('id', '=', paused).execute())
      const jobs = () =>
        db.read
          .selectFrom('jobs')
          .select((row) => row.fn.countAll().as('count'))
          .executeTakeFirst()
      const before = await jobs()
      assert.equal((await send('POST', '/products', product)).statusCode, 201)
      assert.deepEqual(await events(), [])
      assert.deepEqual(await jobs(), before)
    })

    it('are recorded once per change, with the body of the response or the id of the deleted row', async () => {
      await listen('product.*', await client())
      const created = (await send('POST', '/products', product)).json()
      const place = `/products/${created.id}`
      service.clock.now += 1_000
      const replaced = (await send('PUT', place, { name: 'Lamp', price: 2 })).json()
      service.clock.now += 1_000
      const patched = (await send('PATCH', place, { price: 3 })).json()
      service.clock.now += 1_000
      await send('DELETE', place)
      assert.deepEqual(
        (await events()).map(({ type, body }) => [type, JSON.parse(body)]),
        [
          ['product.created', created],
          ['product.updated', replaced],
          ['product.updated', patched],
          ['product.deleted', { id: created.id }],
        ],
      )
      const { ownerClient, audience, callbackUrl } = (await events())[0]!
      assert.deepEqual([ownerClient, audience, callbackUrl], ['cli_writer', 'any', null])
    })

    it('contain type, timestamp and data in the envelope payload style, with links without a version prefix', async () => {
      const id = await listen('book.created', await client(), all, { payloadStyle: 'envelope' })
      const created = await service.send({
        method: 'POST',
        url: '/v1/books',
        payload: { title: 'T', author: 'A' },
        token: token(all, 'cli_writer'),
      })
      const [{ webhookId, body }] = (await deliveries()) as [{ webhookId: string; body: string }]
      const { type, timestamp, data } = JSON.parse(body)
      assert.deepEqual([webhookId, type, timestamp], [id, 'book.created', created.json().createdAt])
      assert.deepEqual(data, { ...created.json(), _links: data._links })
      assert.equal(data._links.self.href, `/books/${data.id}`)
    })

    it('are not recorded for a write that fails with 409, 412 or 404', async () => {
      await listen('*', await client())
      const { id, email } = (await send('POST', '/users', user())).json()
      await db.write((tx) => tx.deleteFrom('events').execute())
      assert.equal((await send('POST', '/users', { ...user(), email })).statusCode, 409)
      const headers = { 'if-match': '"99"' }
      const stale = { url: `/users/${id}`, headers, token: token(all, 'cli_writer') }
      assert.equal((await service.send({ ...stale, method: 'PUT', payload: user() })).statusCode, 412)
      assert.equal((await service.send({ ...stale, method: 'DELETE' })).statusCode, 412)
      assert.equal((await send('DELETE', '/users/2147483647')).statusCode, 404)
      assert.deepEqual(await events(), [])
    })

    it('never contain hidden fields, not even for clients that may read them over HTTP (T-API-04)', async () => {
      const full = `${all} users:read:full`
      await listen('user.*', await client(full), full)
      const { id } = (await send('POST', '/users', user())).json()
      await send('PATCH', `/users/${id}`, { phone: '+2 666' })
      for (const { body } of await events()) {
        assert.deepEqual(Object.keys(JSON.parse(body)).sort(), ['createdAt', 'email', 'id', 'name', 'updatedAt'])
        assert.doesNotMatch(body, /555|666|Main/)
      }
      assert.equal((await deliveries()).length, 2)
    })

    it('403 for registering a webhook for events of a resource that the token may not read', async () => {
      const listener = await client()
      for (const event of ['user.created', 'user.*']) {
        const answer = await register(event, listener, 'webhooks:write products:write users:write')
        assert.deepEqual([answer.statusCode, answer.json().errorCode], [403, 'ACCESS_DENIED'])
        assert.match(String(answer.headers['www-authenticate']), /insufficient_scope", scope="users:read"/)
      }
      assert.deepEqual(await db.read.selectFrom('webhooks').select('id').execute(), [])
      const lacking = 'webhooks:write'
      for (const event of ['*', 'product.*', 'book.deleted']) await listen(event, await client(lacking), lacking)
    })

    it('are sent to every `*` webhook if the resource is public, otherwise only if both token and client can read it', async () => {
      const mayRead = await client()
      const mayNot = await client('webhooks:write')
      const reader = await listen('*', mayRead)
      // The client may read users, but this token was not granted that scope.
      const consented = await listen('*', mayRead, 'webhooks:write')
      const stranger = await listen('*', mayNot, 'webhooks:write')
      // The client has since lost a scope that the token had.
      const reduced = await listen('*', mayNot, all)
      await send('POST', '/users', user())
      assert.deepEqual(
        (await deliveries()).map(({ webhookId }) => webhookId),
        [reader],
      )
      await db.write((tx) => tx.deleteFrom('deliveries').execute())
      await db.write((tx) => tx.deleteFrom('events').execute())
      await send('POST', '/products', product)
      const everybody = [reader, consented, stranger, reduced].sort()
      assert.deepEqual((await deliveries()).map(({ webhookId }) => webhookId).sort(), everybody)
      assert.equal((await deliveries()).length, 4, 'running twice adds nothing')
    })

    it('are not sent to a revoked client (T-WH-07)', async () => {
      const listener = await client()
      await listen('product.created', listener)
      await listen('user.created', listener)
      await revokeClient({ db, sealer: seal, actor: operator }, listener)
      await send('POST', '/products', product)
      await send('POST', '/users', user())
      assert.deepEqual(await deliveries(), [])
    })

    it('are limited to public resources for a webhook registered before resource events existed', async () => {
      const id = await listen('*', await client())
      await db.write((tx) => tx.updateTable('webhooks').set({ scopes: null }).where('id', '=', id).execute())
      await send('POST', '/users', user())
      assert.deepEqual(await deliveries(), [])
      await send('POST', '/products', product)
      assert.equal((await deliveries()).length, 1)
    })

    it('can all be subscribed to, and are listed with a description, an example and a schema', async () => {
      const listener = await client()
      const kinds = (await service.send({ url: '/api/event-types', token: token(all, listener) })).json()
      const names = kinds.map(({ event }: { event: string }) => event)
      assert.deepEqual(names, Object.keys(builtIn.events))
      for (const name of names) await listen(name, listener)
      for (const kind of kinds) assert.deepEqual(Object.keys(kind), ['event', 'description', 'example', 'schema'])
      const { example } = kinds.find(({ event }: { event: string }) => event === 'user.updated')
      assert.deepEqual(Object.keys(example), ['id', 'name', 'email', 'createdAt', 'updatedAt'])
    })

    it('are sent only to the webhooks of the report’s owner, if they are about a report', async () => {
      const [owner, stranger] = [await client(), await client()]
      const scopes = `${all} reports:read reports:write`
      const own = await listen('*', owner)
      await listen('*', stranger)
      await listen('report.*', stranger)
      const as = token(scopes, owner)
      const payload = { reportType: 'books', format: 'csv' }
      const { taskId } = (await service.send({ method: 'POST', url: '/api/reports', payload, token: as })).json()
      const cancelled = await service.send({ method: 'POST', url: `/api/reports/${taskId}/cancel`, token: as })
      assert.equal(cancelled.statusCode, 200, cancelled.body)
      const sent = await deliveries()
      assert.deepEqual(
        sent.map(({ webhookId, body }) => [webhookId, JSON.parse(body).taskId]),
        [[own, taskId]],
      )
    })
  })
})
