import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { token } from '../../support/app.ts'
import { forEachEngine } from '../../support/engines.ts'
import { hooksOn, type Receiver } from '../../support/hooks.ts'
import { eventually } from '../../support/service.ts'
import { definition, everyone, north, peopleOn, scopes, type Who } from './tenants.ts'

const merge = { 'content-type': 'application/merge-patch+json' }
const [maxCachedMs, delivered] = [5_000, 'delivered']

forEachEngine((engine) => {
  describe('events of a resource with access rules', () => {
    const service = hooksOn(engine, [0, 0.01], definition)
    let people: Awaited<ReturnType<typeof peopleOn>>
    const receivers = {} as Record<Who, Receiver>
    const webhooks = {} as Record<Who, string>
    const as = (who: Who, request: Parameters<typeof service.send>[0]) =>
      service.send({ token: people.tokens[who], ...request })
    const register = async (bearer: string, body: object) => {
      const registered = await service.send({ method: 'POST', url: '/api/webhooks', payload: body, token: bearer })
      assert.equal(registered.statusCode, 201, registered.body)
      return registered.json().id as string
    }
    before(async () => {
      people = await peopleOn(service.db, Date.now())
      for (const who of everyone) {
        receivers[who] = await service.receiver()
        webhooks[who] = await register(people.tokens[who], { event: 'note.*', callbackUrl: receivers[who].url })
      }
    })

    const newest = async (type: string) => {
      const events = service.db.read.selectFrom('events').selectAll().where('type', '=', type)
      return events.orderBy('id', 'desc').executeTakeFirstOrThrow()
    }
    const deliveriesOf = (eventId: string) =>
      service.db.read.selectFrom('deliveries').selectAll().where('eventId', '=', eventId).execute()
    /** Waits for the deliveries of the newest event of a type; returns the callers who received it. */
    const readersOf = async (type: string): Promise<Who[]> => {
      const { id } = await newest(type)
      const deliveries = await eventually('the deliveries have ended', async () => {
        const found = await deliveriesOf(id)
        return found.length > 0 && found.every(({ status }) => status === delivered) && found
      })
      const receivedBy = everyone.filter((who) =>
        receivers[who].calls.some(({ headers }) => headers['webhook-id'] === id),
      )
      const queuedFor = everyone.filter((who) => deliveries.some(({ webhookId }) => webhookId === webhooks[who]))
      assert.deepEqual(queuedFor, receivedBy)
      return receivedBy
    }
    const lastBody = (who: Who) => JSON.parse(String(receivers[who].calls.at(-1)?.bytes))
    const create = async (who: Who = 'owner', payload: object = {}) => {
      const note = { tenant: 'north', text: 'a note', pin: '4711', ...payload }
      const created = await as(who, { method: 'POST', url: '/notes', payload: note })
      assert.equal(created.statusCode, 201, created.body)
      return created.json()
    }
    const patch = (who: Who, id: number, payload: object) =>
      as(who, { method: 'PATCH', url: `/notes/${id}`, payload, headers: merge })

    it('are received by those who may read the row, for each event type', async () => {
      const note = await create('owner', { size: 3, isOpen: true, amount: '12.50', due: '2026-03-01' })
      assert.deepEqual(await readersOf('note.created'), north)
      assert.deepEqual(lastBody('colleague'), note)
      assert.equal((await patch('colleague', note.id, { text: 'changed' })).statusCode, 200)
      assert.deepEqual(await readersOf('note.updated'), north)
      assert.equal((await as('machine', { method: 'DELETE', url: `/notes/${note.id}` })).statusCode, 204)
      assert.deepEqual(await readersOf('note.deleted'), north)
      assert.deepEqual(lastBody('owner'), { id: note.id })
    })

    it('contain neither write-only fields nor the row values that are stored for the rules', async () => {
      await create()
      await readersOf('note.created')
      const { facts, body } = await newest('note.created')
      assert.equal(JSON.parse(String(facts)).pin, '4711')
      assert.doesNotMatch(body, /4711/)
      for (const { bytes } of receivers.auditor.calls) assert.doesNotMatch(String(bytes), /4711|facts/)
    })

    it('about a row moved to another tenant are received only by the new tenant', async () => {
      const { id } = await create()
      assert.equal((await patch('auditor', id, { tenant: 'south' })).statusCode, 200)
      assert.deepEqual(await readersOf('note.updated'), ['stranger', 'auditor'])
      await as('stranger', { method: 'DELETE', url: `/notes/${id}` })
      assert.deepEqual(await readersOf('note.deleted'), ['stranger', 'auditor'])
    })

    it("are not sent, replayed or redelivered while the webhook's owner may not read the row", async () => {
      const since = new Date(Date.now() + service.ahead.ms).toISOString()
      await create()
      assert.ok((await readersOf('note.created')).includes('colleague'))
      const event = await newest('note.created')
      const deliveries = await deliveriesOf(event.id)
      const delivery = deliveries.find(({ webhookId }) => webhookId === webhooks.colleague)
      const url = `/api/webhooks/${webhooks.colleague}`
      const redeliver = () => as('colleague', { method: 'POST', url: `${url}/deliveries/${delivery?.id}/redeliver` })
      const replay = () => as('colleague', { method: 'POST', url: `${url}/replay`, payload: { since } })
      await people.move('colleague', 'south')
      service.ahead.ms += maxCachedMs
      await create()
      assert.deepEqual(await readersOf('note.created'), ['owner', 'auditor', 'machine'])
      const refused = await redeliver()
      assert.deepEqual([refused.statusCode, refused.json().errorCode], [403, 'PERMISSION_DENIED'])
      const nothing = await replay()
      assert.deepEqual([nothing.statusCode, nothing.json().count], [202, 0])
      const calls = receivers.colleague.calls.length
      await people.move('colleague', 'north')
      service.ahead.ms += maxCachedMs
      assert.equal((await replay()).json().count, 1)
      await receivers.colleague.called(calls + 1)
      await eventually('the replay has ended', async () =>
        (await deliveriesOf(event.id)).every((one) => one.status === delivered),
      )
      assert.equal((await redeliver()).statusCode, 202)
      await receivers.colleague.called(calls + 2)
      assert.ok(receivers.colleague.calls.slice(calls).every(({ headers }) => headers['webhook-id'] === event.id))
    })

    it("are not sent if the webhook's owner loses read access while the delivery is waiting for a retry", async () => {
      await create()
      await readersOf('note.created')
      const { id } = await newest('note.created')
      const calls = receivers.colleague.calls.length
      const [mine] = (await deliveriesOf(id)).filter(({ webhookId }) => webhookId === webhooks.colleague)
      assert.ok(mine)
      await people.move('colleague', 'south')
      service.ahead.ms += maxCachedMs
      // Simulates the retry of a failed attempt.
      await service.db.write(async (tx) => {
        const waiting = { status: 'pending', nextAttemptAt: new Date(0).toISOString() } as const
        await tx.updateTable('deliveries').set(waiting).where('id', '=', mine.id).execute()
        await service.queue.enqueue(tx, 'delivery.send', { deliveryId: mine.id })
      })
      const ended = await eventually('the delivery has ended', async () =>
        (await deliveriesOf(id)).find((one) => one.id === mine.id && one.status === 'failed'),
      )
      assert.equal(ended.attempts, mine.attempts)
      assert.equal(receivers.colleague.calls.length, calls)
      await people.move('colleague', 'north')
      service.ahead.ms += maxCachedMs
    })

    it('require the read scope: without it, subscribing returns 403 and `*` does not include them', async () => {
      const receiver = await service.receiver()
      const blind = token('webhooks:read webhooks:write', 'crm_north')
      const payload = { event: 'note.created', callbackUrl: receiver.url }
      const refused = await service.send({ method: 'POST', url: '/api/webhooks', payload, token: blind })
      assert.equal(refused.statusCode, 403)
      const id = await register(blind, { event: '*', callbackUrl: receiver.url })
      await create()
      await readersOf('note.created')
      const found = await deliveriesOf((await newest('note.created')).id)
      assert.ok(found.every(({ webhookId }) => webhookId !== id))
    })

    it("are sent only if may() holds with the token's scopes that the webhook owner's role still grants", async () => {
      const receiver = await service.receiver()
      const { ids } = people
      const all = `${scopes} admin`
      const callback = (name: string) => ({ event: 'secret.*', callbackUrl: `${receiver.url}/${name}` })
      const admin = await register(people.tokens.admin, callback('admin'))
      await register(people.tokens.machine, callback('machine'))
      const auditor = await register(token(all, 'cli_app', String(ids.auditor)), callback('auditor'))
      // This token has the scope `admin`, as if it had been issued before the user lost the role.
      await register(token(all, 'cli_app', String(ids.owner)), callback('owner'))
      const created = await as('admin', { method: 'POST', url: '/secrets', payload: { text: 'for few' } })
      assert.equal(created.statusCode, 201)
      await receiver.called(2)
      const found = await deliveriesOf((await newest('secret.created')).id)
      assert.deepEqual(found.map(({ webhookId }) => webhookId).sort(), [admin, auditor].sort())
    })

    it("403 if an administrator changes the URL or events of another owner's webhook; 200 for other changes and for the owner", async () => {
      const url = `/api/webhooks/${webhooks.stranger}`
      const change = (who: Who, payload: object) => as(who, { method: 'PATCH', url, payload, headers: merge })
      const elsewhere = { callbackUrl: `${receivers.admin.url}/redirected` }
      for (const payload of [elsewhere, { event: '*' }, { event: 'secret.*' }]) {
        const refused = await change('admin', payload)
        assert.deepEqual([refused.statusCode, refused.json().errorCode], [403, 'PERMISSION_DENIED'])
      }
      assert.equal((await change('admin', { description: 'seen' })).statusCode, 200)
      assert.equal((await change('stranger', { event: 'note.created' })).statusCode, 200)
      assert.equal((await change('stranger', { event: 'note.*' })).statusCode, 200)
    })

    it('can be sent as a test by an owner who can read no rows; the event schema has createdBy but no write-only fields', async () => {
      const calls = receivers.nobody.calls.length
      const url = `/api/webhooks/${webhooks.nobody}/test`
      assert.equal((await as('nobody', { method: 'POST', url, payload: { event: 'note.created' } })).statusCode, 202)
      await receivers.nobody.called(calls + 1)
      const kinds = (await as('nobody', { url: '/api/event-types' })).json()
      const { schema } = kinds.find(({ event }: { event: string }) => event === 'note.created')
      assert.ok(schema.properties.createdBy)
      assert.ok(!schema.properties.pin)
    })

    it('are not recorded while all webhooks are paused', async () => {
      const paused = await service.db.write((tx) =>
        tx.updateTable('webhooks').set({ status: 'paused' }).returning('id').execute(),
      )
      const count = async () => (await service.db.read.selectFrom('events').select('id').execute()).length
      const before = await count()
      const { id } = await create()
      await as('owner', { method: 'DELETE', url: `/notes/${id}` })
      assert.equal(await count(), before)
      assert.ok(paused.length > everyone.length)
    })
  })
})
