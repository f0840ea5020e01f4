import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Database } from '../../src/db/open.ts'
import { expireDeliveries } from '../../src/resources/webhooks/expire.ts'
import { forEachEngine } from '../support/engines.ts'
import { batch, dispatching, outcomes } from '../support/webhooks.ts'

const start = Date.parse('2026-03-01T12:00:00.000Z')
const dayMs = 86_400_000

forEachEngine((engine) => {
  describe('the delivery log', () => {
    let db: Database
    const clock = { now: start }
    before(async () => {
      db = await engine.database()
    })
    after(() => db.close())
    const { one, fan } = dispatching(() => db, clock)
    const now = () => clock.now
    const count = async (table: 'deliveries' | 'attempts' | 'events' | 'deliveryLanes') =>
      (await db.read.selectFrom(table).selectAll().execute()).length

    it('keeps deliveries for 30 days after their end, with attempts and events, and waiting ones for ever', async () => {
      const the = await one(outcomes.delivered)
      await the.run()
      const { id } = await the.emit(the.owner, { callbackUrl: 'https://later.test/' })
      await db.write((tx) => tx.updateTable('webhooks').set({ status: 'paused' }).execute())
      await fan(batch([{ eventId: id }]))
      await db.write((tx) =>
        tx
          .updateTable('events')
          .set({ createdAt: new Date(start).toISOString() })
          .execute(),
      )
      clock.now = start + 30 * dayMs - 1
      assert.equal(await expireDeliveries(db, now), 0)
      clock.now += 1
      assert.equal(await expireDeliveries(db, now), 1)
      assert.deepEqual([await count('deliveries'), await count('attempts'), await count('events')], [1, 0, 1])
      assert.equal((await the.deliveries(id))[0]?.status, 'pending')
      clock.now = start
    })

    it('keeps the lane of a registration and of what waits, and forgets the others', async () => {
      const the = await one(outcomes.failed)
      await the.run()
      const { id } = await the.emit(the.owner, { callbackUrl: 'https://once.test/' })
      await fan(batch([{ eventId: id }]))
      await expireDeliveries(db, now)
      assert.equal(await count('deliveryLanes'), 2)
      await the.run()
      await db.write((tx) => tx.updateTable('deliveries').set({ status: 'failed' }).execute())
      await db.write((tx) => tx.updateTable('deliveryLanes').set({ dueAt: null }).execute())
      await expireDeliveries(db, now)
      const [left] = await db.read.selectFrom('deliveryLanes').selectAll().execute()
      assert.deepEqual([left?.lane, left?.failures], [the.webhookId, 2])
      await the.unsubscribe(the.owner, the.webhookId)
      await expireDeliveries(db, now)
      assert.equal(await count('deliveryLanes'), 0)
    })
  })
})
