import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Database } from '../../src/db/open.ts'
import { forEachEngine } from '../support/engines.ts'
import { batch, dispatching, newOwner, outcomes } from '../support/webhooks.ts'

forEachEngine((engine) => {
  describe('the owner of a webhook', () => {
    let db: Database
    const clock = { now: Date.parse('2026-03-01T12:00:00.000Z') }
    before(async () => {
      db = await engine.database()
    })
    after(() => db.close())
    const { one, fan } = dispatching(() => db, clock)

    it('owns its deliveries, whoever caused the event and whatever becomes of the registration (T-API-01)', async () => {
      const the = await one(outcomes.delivered)
      const causer = newOwner()
      const event = await the.emit(causer, { audience: 'any', callbackUrl: 'https://elsewhere.test/' })
      await fan(batch([{ eventId: event.id }]))
      await the.unsubscribe(the.owner, the.webhookId)
      const owners = (await the.deliveries(event.id)).map(({ webhookId, ownerClient, ownerSubject }) => [
        String(webhookId),
        { ownerClient, ownerSubject },
      ])
      assert.deepEqual(Object.fromEntries(owners), { [the.webhookId]: the.owner, null: causer })
    })
  })
})
