import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Database } from '../../src/storage/database.ts'
import type { CallOutcome } from '../../src/webhooks/dispatch/outcome.ts'
import { forEachEngine } from '../support/engines.ts'
import { dispatching, outcomes } from '../support/webhooks.ts'

const { failed, delivered, gone } = outcomes
const start = Date.parse('2026-03-01T12:00:00.000Z')
const iso = (ms: number) => new Date(ms).toISOString()
const elsewhere = 'https://elsewhere.test/'

forEachEngine((engine) => {
  describe('a webhook with a changed address', () => {
    let db: Database
    const clock = { now: start }
    const { one } = dispatching(engine, clock, (opened) => {
      db = opened
    })

    /** Creates a delivery, and changes its webhook's address during the first call, which has the given outcome. */
    async function movedDuring(
      outcome: CallOutcome,
      meanwhile: (eventId: string) => Promise<unknown> = async () => {},
    ) {
      const response = async () => {
        if (fixture.sent.length > 1) return delivered
        await meanwhile(fixture.event.id)
        await fixture.change(fixture.owner, fixture.webhookId, { callbackUrl: elsewhere })
        return outcome
      }
      const fixture: Awaited<ReturnType<typeof one>> = await one(response)
      await fixture.run()
      return fixture
    }

    it('gets retries at its new address, and stays healthy after a failed call to the old address', async () => {
      const fixture = await movedDuring(failed)
      const { status, failingSince } = await fixture.webhook(fixture.webhookId)
      assert.deepEqual([status, failingSince], ['active', null])
      const [lane] = await db.read.selectFrom('deliveryLanes').select('failures').execute()
      assert.equal(lane?.failures, 0)
      clock.now += 10_000
      await fixture.run()
      assert.deepEqual(
        fixture.sent.map(({ url }) => url),
        ['https://receiver.test/', elsewhere],
      )
      assert.equal((await fixture.row()).status, 'delivered')
    })

    it('is not disabled by a 410 from the old address', async () => {
      const fixture = await movedDuring(gone)
      assert.equal((await fixture.webhook(fixture.webhookId)).status, 'active')
      assert.equal((await fixture.row()).status, 'pending')
      clock.now += 10_000
      await fixture.run()
      assert.deepEqual([fixture.sent[1]?.url, (await fixture.row()).status], [elsewhere, 'delivered'])
    })

    it('receives deliveries at the new address, even those added concurrently for the old address', async () => {
      const fixture = await one(delivered)
      await fixture.change(fixture.owner, fixture.webhookId, { callbackUrl: elsewhere })
      const old = { url: 'https://receiver.test/' }
      await db.write((tx) => tx.updateTable('deliveries').set(old).where('id', '=', fixture.id).execute())
      await fixture.run()
      assert.deepEqual(
        fixture.sent.map(({ url }) => url),
        [elsewhere],
      )
    })

    it('gets no retries of events that its new scopes exclude, but a call in flight can still succeed', async () => {
      const hide = (eventId: string) =>
        db.write((tx) => tx.updateTable('events').set({ audience: 'users:read' }).where('id', '=', eventId).execute())
      const unsuccessful = await movedDuring(failed, hide)
      const { status, attempts, nextAttemptAt, completedAt } = await unsuccessful.row()
      assert.deepEqual([status, attempts, nextAttemptAt], ['failed', 1, null])
      assert.notEqual(completedAt, null)
      assert.equal((await (await movedDuring(delivered, hide)).row()).status, 'delivered')
    })
  })

  describe('a webhook’s endpoint queue', () => {
    let db: Database
    const clock = { now: start }
    const { one } = dispatching(engine, clock, (opened) => {
      db = opened
    })

    for (const [what, from, patch] of [
      ['is enabled again', 'disabled', { status: 'active' }],
      ['has a new address', 'active', { callbackUrl: elsewhere }],
    ] as const) {
      it(`resumes sending waiting deliveries once the webhook ${what}`, async () => {
        const fixture = await one(delivered)
        const closed = { failures: 15, openUntil: iso(start + 60_000), dueAt: iso(start + 60_000) }
        await db.write(async (tx) => {
          await tx.updateTable('webhooks').set({ status: from }).where('id', '=', fixture.webhookId).execute()
          await tx.updateTable('deliveryLanes').set(closed).where('lane', '=', fixture.webhookId).execute()
        })
        await fixture.change(fixture.owner, fixture.webhookId, patch)
        const [lane] = await db.read.selectFrom('deliveryLanes').selectAll().execute()
        assert.deepEqual([lane?.failures, lane?.openUntil, lane?.dueAt], [0, null, iso(start)])
        await fixture.run()
        assert.equal(fixture.sent.length, 1)
      })
    }

    it('stays paused if only the webhook’s description changes', async () => {
      const fixture = await one(delivered)
      const closed = { failures: 15, openUntil: iso(start + 60_000) }
      await db.write((tx) => tx.updateTable('deliveryLanes').set(closed).execute())
      await fixture.change(fixture.owner, fixture.webhookId, { description: 'Ours', status: 'active' })
      await fixture.run()
      assert.equal(fixture.sent.length, 0)
    })
  })
})
