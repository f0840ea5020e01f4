import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Database } from '../../src/storage/database.ts'
import { forEachEngine } from '../support/engines.ts'
import { batch, dispatching, newOwner, outcomes } from '../support/webhooks.ts'

forEachEngine((engine) => {
  describe('a webhook’s owner', () => {
    let db: Database
    const clock = { now: Date.parse('2026-03-01T12:00:00.000Z') }
    const { one, fan } = dispatching(engine, clock, (opened) => {
      db = opened
    })

    it('owns the webhook’s deliveries, including those caused by other clients, even after the webhook is deleted (T-API-01)', async () => {
      const fixture = await one(outcomes.delivered)
      const causer = newOwner()
      const event = await fixture.emit(causer, { audience: 'any', callbackUrl: 'https://elsewhere.test/' })
      await fan(batch([{ eventId: event.id }]))
      await fixture.unsubscribe(fixture.owner, fixture.webhookId)
      const owners = (await fixture.deliveries(event.id)).map(({ webhookId, ownerClient, ownerSubject }) => [
        String(webhookId),
        { ownerClient, ownerSubject },
      ])
      assert.deepEqual(Object.fromEntries(owners), { [fixture.webhookId]: fixture.owner, null: causer })
    })

    /** Creates a user. The returned `owner` identifies the user logged in with a client. */
    async function person() {
      const key = `u${++people}@example.com`
      const user = { name: key, nameKey: key, email: key, emailKey: key, address: null, phone: null, revision: 1 }
      const row = { ...user, createdAt: '', updatedAt: '' }
      const { id } = await db.write((tx) =>
        tx.insertInto('users').values(row).returning('id').executeTakeFirstOrThrow(),
      )
      const remove = () => db.write((tx) => tx.deleteFrom('users').where('id', '=', id).execute())
      return { owner: { ownerClient: 'cli_app', ownerSubject: String(id) }, remove }
    }
    let people = 0

    it('receives neither new events nor waiting deliveries once the user is deleted', async () => {
      const fixture = await one(outcomes.delivered)
      const { owner, remove } = await person()
      const other = await person()
      const { id } = await fixture.subscribe(owner, 'https://gone.test/')
      const { id: kept } = await fixture.subscribe(other.owner, 'https://kept.test/')
      const receivers = async (eventId: string) => (await fixture.deliveries(eventId)).map(({ webhookId }) => webhookId)
      const emit = async (...of: Parameters<typeof fixture.emit>) => {
        const event = await fixture.emit(...of)
        await fan(batch([{ eventId: event.id }]))
        return event.id
      }
      const waiting = await emit(owner)
      assert.deepEqual(await receivers(waiting), [id])
      assert.ok((await receivers(await emit(newOwner(), { audience: 'any' }))).includes(id))
      await remove()
      assert.deepEqual(await receivers(await emit(owner)), [])
      const everybody = await receivers(await emit(newOwner(), { audience: 'any' }))
      assert.deepEqual([everybody.includes(id), everybody.includes(kept)], [false, true])
      await fixture.run()
      assert.deepEqual(
        (await fixture.deliveries(waiting)).map(({ status, attempts }) => [status, attempts]),
        [['failed', 0]],
      )
      assert.ok(!fixture.sent.some(({ url }) => url === 'https://gone.test/'))
      assert.ok(fixture.sent.some(({ url }) => url === 'https://kept.test/'))
    })

    it('is not mistaken for a deleted user if its client id looks like a user id', async () => {
      const fixture = await one(outcomes.delivered)
      const owner = { ownerClient: '4711', ownerSubject: '4711' }
      const { id } = await fixture.subscribe(owner, 'https://client.test/')
      const event = await fixture.emit(owner)
      await fan(batch([{ eventId: event.id }]))
      assert.deepEqual(
        (await fixture.deliveries(event.id)).map(({ webhookId }) => webhookId),
        [id],
      )
    })
  })
})
