import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { LeaseLost } from '../../src/queue/queue.ts'
import type { Database } from '../../src/storage/database.ts'
import type { Delivery } from '../../src/storage/tables/tables.ts'
import { enqueueManual, makeDue } from '../../src/webhooks/deliveries/enqueue.ts'
import { forEachEngine } from '../support/engines.ts'
import { batch, dispatching, outcomes } from '../support/webhooks.ts'

const { failed, delivered, gone } = outcomes
const start = Date.parse('2026-03-01T12:00:00.000Z')
const secondsAfterStart = (instant: string | null) => (Date.parse(instant ?? '') - start) / 1_000

forEachEngine((engine) => {
  describe('a delivery attempt', () => {
    let db: Database
    const clock = { now: start }
    const {
      start: dispatch,
      one,
      fan,
    } = dispatching(engine, clock, (opened) => {
      db = opened
    })

    it('is followed by another attempt after the scheduled delay, until the schedule is exhausted', async () => {
      const fixture = await one(failed)
      await fixture.run()
      assert.equal(secondsAfterStart((await fixture.row()).nextAttemptAt), 10)
      await fixture.run()
      assert.equal(fixture.sent.length, 1, 'it is not due')
      clock.now = start + 10_000
      await fixture.run()
      assert.equal(secondsAfterStart((await fixture.row()).nextAttemptAt), 110)
      clock.now = start + 110_000
      await fixture.run()
      const { status, attempts, nextAttemptAt } = await fixture.row()
      assert.deepEqual({ status, attempts, nextAttemptAt }, { status: 'failed', attempts: 3, nextAttemptAt: null })
    })

    for (const [jitter, seconds] of [
      [0, 8],
      [0.999_999, 12],
    ] as const) {
      it(`is retried after the scheduled 10 s ± 20 % (here ${seconds} s)`, async () => {
        const fixture = await one(failed, { jitter: () => jitter })
        await fixture.run()
        assert.equal(Math.round(secondsAfterStart((await fixture.row()).nextAttemptAt)), seconds)
      })
    }

    for (const [retryAfterSeconds, seconds] of [
      [3_600, 3_600],
      [3, 10],
      [0, 10],
      [99_999_999, 86_400],
    ] as const) {
      it(`is retried after ${seconds} s if the response has Retry-After: ${retryAfterSeconds} (T-WH-05)`, async () => {
        const fixture = await one({ ...failed, status: 429, retryAfterSeconds })
        await fixture.run()
        assert.equal(secondsAfterStart((await fixture.row()).nextAttemptAt), seconds)
      })
    }

    it('is repeated with the same number if its sender crashed before recording the outcome', async () => {
      const { promise: never } = Promise.withResolvers<typeof delivered>()
      let response: () => typeof delivered | Promise<typeof delivered> = () => never
      const fixture = await one(() => response())
      const lost = await dispatch(fixture.post)
      while (fixture.sent.length === 0) await new Promise(setImmediate)
      response = () => delivered
      await fixture.run()
      assert.equal(fixture.sent.length, 1, 'it is still leased')
      clock.now += 30_000
      await fixture.run()
      assert.deepEqual(
        fixture.sent.map(({ headers }) => headers['webhook-attempt']),
        ['1', '1'],
      )
      assert.deepEqual([(await fixture.row()).status, (await fixture.attempts(fixture.id)).length], ['delivered', 1])
      await lost.stop(0)
    })

    it('changes nothing if its lease has expired and another sender has since delivered (F-ZOMBIE)', async () => {
      const stale = Promise.withResolvers<typeof failed>()
      let response: () => typeof failed | Promise<typeof failed> = () => stale.promise
      const fixture = await one(() => response())
      const zombie = await dispatch(fixture.post)
      while (fixture.sent.length === 0) await new Promise(setImmediate)
      clock.now += 30_000
      response = () => ({ ...delivered, error: null as never })
      await fixture.run()
      const before = [await fixture.row(), await fixture.attempts(fixture.id), await fixture.webhook(fixture.webhookId)]
      stale.resolve(failed)
      await zombie.settled()
      assert.deepEqual(
        [await fixture.row(), await fixture.attempts(fixture.id), await fixture.webhook(fixture.webhookId)],
        before,
      )
      assert.equal((await fixture.row()).status, 'delivered')
    })

    it('is not repeated once the delivery has succeeded', async () => {
      const fixture = await one(delivered)
      await fixture.run()
      await fixture.run()
      assert.equal(fixture.sent.length, 1)
    })

    it('is released if the service stops before it completes, and is then repeated', async () => {
      const { promise: never } = Promise.withResolvers<typeof delivered>()
      let response: () => typeof delivered | Promise<typeof delivered> = () => never
      const fixture = await one(() => response())
      const stopping = await dispatch(fixture.post)
      while (fixture.sent.length === 0) await new Promise(setImmediate)
      await stopping.stop(20)
      stopping.wake()
      assert.deepEqual([(await fixture.row()).leaseUntil, (await fixture.row()).attempts], [null, 0])
      response = () => delivered
      await fixture.run()
      assert.deepEqual([fixture.sent.length, (await fixture.row()).status], [2, 'delivered'])
    })

    it('is completed and recorded if it is in flight when the service stops', async () => {
      const slow = Promise.withResolvers<typeof delivered>()
      const fixture = await one(() => slow.promise)
      const stopping = await dispatch(fixture.post)
      while (fixture.sent.length === 0) await new Promise(setImmediate)
      const stopped = stopping.stop(5_000)
      slow.resolve(delivered)
      await stopped
      assert.equal((await fixture.row()).status, 'delivered')
    })

    it('is not made if the webhook was deleted, paused or disabled', async () => {
      for (const status of ['deleted', 'paused', 'disabled'] as const) {
        const fixture = await one(delivered)
        const change = (tx: Database['read']) =>
          status === 'deleted'
            ? tx.deleteFrom('webhooks').where('id', '=', fixture.webhookId).execute()
            : tx.updateTable('webhooks').set({ status }).where('id', '=', fixture.webhookId).execute()
        await db.write(async (tx) => void (await change(tx)))
        await fixture.run()
        const { status: ended, attempts, leaseUntil } = await fixture.row()
        assert.deepEqual([fixture.sent.length, ended, attempts, leaseUntil], [0, 'failed', 0, null])
      }
    })

    it('does not count if an internal error prevents it: the error is logged, and the attempt is retried a minute later', async () => {
      const reported: unknown[] = []
      const fixture = await one(delivered, { onError: (error) => reported.push(error), limits: { ...limitsOfOne } })
      const other = await fixture.emit(fixture.owner)
      await fan(batch([{ eventId: other.id }]))
      const { secretSealed } = await fixture.webhook(fixture.webhookId)
      const seal = (text: string) =>
        db.write((tx) =>
          tx.updateTable('webhooks').set({ secretSealed: text }).where('id', '=', fixture.webhookId).execute(),
        )
      await seal('v1.AAAA')
      await fixture.run()
      assert.deepEqual([fixture.sent.length, reported.length], [0, 1], 'what waits beside it is not tried either')
      const { status, attempts, leaseUntil } = await fixture.row()
      assert.deepEqual([status, attempts, leaseUntil, await fixture.attempts(fixture.id)], ['pending', 0, null, []])
      const [lane] = await db.read.selectFrom('deliveryLanes').selectAll().execute()
      assert.deepEqual([lane?.failures, lane?.dueAt], [0, new Date(start + 60_000).toISOString()])
      assert.equal((await fixture.webhook(fixture.webhookId)).failingSince, null)
      await seal(secretSealed)
      clock.now = start + 60_000
      await fixture.run()
      assert.deepEqual([fixture.sent.length, reported.length, (await fixture.row()).status], [2, 1, 'delivered'])
    })

    it('fails the webhook’s other deliveries if the response is 410', async () => {
      const fixture = await one(gone, { limits: { ...limitsOfOne } })
      const other = await fixture.emit(fixture.owner)
      await fan(batch([{ eventId: other.id }]))
      await fixture.run()
      const [{ status, nextAttemptAt }] = (await fixture.deliveries(other.id)) as [Delivery]
      assert.deepEqual(
        { status, nextAttemptAt, sent: fixture.sent.length },
        { status: 'failed', nextAttemptAt: null, sent: 1 },
      )
      assert.equal((await fixture.webhook(fixture.webhookId)).failingSince, null)
    })

    it('does not conflict with a concurrent deletion of the webhook, in either order (T-WH-07)', async () => {
      for (const outcome of [failed, delivered, gone]) {
        const all = await Promise.all(Array.from({ length: 10 }, () => one(outcome)))
        const sender = await dispatch(async () => outcome)
        await Promise.all(all.map((fixture) => fixture.unsubscribe(fixture.owner, fixture.webhookId)))
        await sender.settled()
        for (const fixture of all) {
          const { status, nextAttemptAt, leaseUntil } = await fixture.row()
          assert.deepEqual([nextAttemptAt, leaseUntil], [null, null])
          assert.notEqual(status, 'pending')
        }
      }
    })

    it('counts even if a redelivery is requested while the call is in flight; the redelivery is still sent', async () => {
      const slow = Promise.withResolvers<typeof delivered>()
      const fixture = await one(() => (fixture.sent.length === 1 ? slow.promise : delivered))
      const sender = await dispatch(fixture.post)
      while (fixture.sent.length === 0) await new Promise(setImmediate)
      await db.write((tx) => tx.updateTable('deliveries').set({ round: 1 }).where('id', '=', fixture.id).execute())
      slow.resolve(delivered)
      await sender.settled()
      const { status, attempts } = await fixture.row()
      assert.deepEqual([fixture.sent.length, status, attempts], [2, 'delivered', 2])
    })

    it('is made only once for a test, even if the webhook is paused', async () => {
      const fixture = await one(failed)
      await db.write((tx) =>
        tx.updateTable('webhooks').set({ status: 'paused' }).where('id', '=', fixture.webhookId).execute(),
      )
      await db.write((tx) => tx.updateTable('deliveries').set({ isTest: 1 }).where('id', '=', fixture.id).execute())
      await fixture.run()
      const { status, attempts } = await fixture.row()
      assert.deepEqual([fixture.sent.length, status, attempts], [1, 'failed', 1])
    })
  })

  describe('a delivery', () => {
    let db: Database
    const clock = { now: start }
    const { one, fan } = dispatching(engine, clock, (opened) => {
      db = opened
    })

    it('is not scheduled twice if its event is fanned out twice (P4)', async () => {
      const fixture = await one(delivered)
      const event = await fixture.emit(fixture.owner, { callbackUrl: 'https://elsewhere.test/' })
      await fan(batch([{ eventId: event.id }]))
      await fan(batch([{ eventId: event.id }, { eventId: event.id }]))
      assert.equal((await fixture.deliveries(event.id)).length, 2)
    })

    it('is not scheduled by a fan-out that has lost its lease', async () => {
      const fixture = await one(delivered)
      const event = await fixture.emit(fixture.owner)
      const lost = { finish: async () => Promise.reject(new LeaseLost()) }
      await assert.rejects(fan(batch([{ eventId: event.id }], lost)), LeaseLost)
      assert.deepEqual(await fixture.deliveries(event.id), [])
    })

    it('is retried on the full schedule again after a manual redelivery', async () => {
      const fixture = await one(failed, { schedule: [0, 10] })
      await fixture.run()
      clock.now = start + 10_000
      await fixture.run()
      assert.deepEqual([(await fixture.row()).status, (await fixture.row()).attempts], ['failed', 2])
      const instant = new Date(clock.now).toISOString()
      await db.write(async (tx) => {
        await makeDue(tx, await fixture.webhook(fixture.webhookId), [fixture.id], instant)
        await tx.updateTable('deliveries').set({ lane: '' }).where('id', '=', fixture.id).execute()
      })
      let reported = 0
      await enqueueManual({ db, onAdded: () => reported++ })(
        batch([{ deliveryId: fixture.id }, { deliveryId: 'dlv_unknown' }]),
      )
      await fixture.run()
      const third = await fixture.row()
      assert.deepEqual([reported, fixture.sent.length, third.status, third.attempts], [1, 3, 'pending', 3])
      assert.equal(secondsAfterStart(third.nextAttemptAt), 20)
      clock.now = start + 20_000
      await fixture.run()
      const { status, attempts } = await fixture.row()
      assert.deepEqual([fixture.sent.length, status, attempts], [4, 'failed', 4])
    })
  })
})

const limitsOfOne = {
  inFlight: 1,
  perSecond: 10,
  breakAfter: 10,
  firstPauseSeconds: 5,
  maxPauseSeconds: 60,
  probeSeconds: 5,
}
