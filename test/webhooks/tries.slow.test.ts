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
      const the = await one(failed)
      await the.run()
      assert.equal(secondsAfterStart((await the.row()).nextAttemptAt), 10)
      await the.run()
      assert.equal(the.sent.length, 1, 'it is not due')
      clock.now = start + 10_000
      await the.run()
      assert.equal(secondsAfterStart((await the.row()).nextAttemptAt), 110)
      clock.now = start + 110_000
      await the.run()
      const { status, attempts, nextAttemptAt } = await the.row()
      assert.deepEqual({ status, attempts, nextAttemptAt }, { status: 'failed', attempts: 3, nextAttemptAt: null })
    })

    for (const [jitter, seconds] of [
      [0, 8],
      [0.999_999, 12],
    ] as const) {
      it(`is retried after the scheduled 10 s ± 20 % (here ${seconds} s)`, async () => {
        const the = await one(failed, { jitter: () => jitter })
        await the.run()
        assert.equal(Math.round(secondsAfterStart((await the.row()).nextAttemptAt)), seconds)
      })
    }

    for (const [retryAfterSeconds, seconds] of [
      [3_600, 3_600],
      [3, 10],
      [0, 10],
      [99_999_999, 86_400],
    ] as const) {
      it(`is retried after ${seconds} s if the response has Retry-After: ${retryAfterSeconds} (T-WH-05)`, async () => {
        const the = await one({ ...failed, status: 429, retryAfterSeconds })
        await the.run()
        assert.equal(secondsAfterStart((await the.row()).nextAttemptAt), seconds)
      })
    }

    it('is repeated with the same number if its sender crashed before recording the outcome', async () => {
      const { promise: never } = Promise.withResolvers<typeof delivered>()
      let response: () => typeof delivered | Promise<typeof delivered> = () => never
      const the = await one(() => response())
      const lost = await dispatch(the.post)
      while (the.sent.length === 0) await new Promise(setImmediate)
      response = () => delivered
      await the.run()
      assert.equal(the.sent.length, 1, 'it is still leased')
      clock.now += 30_000
      await the.run()
      assert.deepEqual(
        the.sent.map(({ headers }) => headers['webhook-attempt']),
        ['1', '1'],
      )
      assert.deepEqual([(await the.row()).status, (await the.attempts(the.id)).length], ['delivered', 1])
      await lost.stop(0)
    })

    it('changes nothing if its lease has expired and another sender has since delivered (F-ZOMBIE)', async () => {
      const stale = Promise.withResolvers<typeof failed>()
      let response: () => typeof failed | Promise<typeof failed> = () => stale.promise
      const the = await one(() => response())
      const zombie = await dispatch(the.post)
      while (the.sent.length === 0) await new Promise(setImmediate)
      clock.now += 30_000
      response = () => ({ ...delivered, error: null as never })
      await the.run()
      const before = [await the.row(), await the.attempts(the.id), await the.webhook(the.webhookId)]
      stale.resolve(failed)
      await zombie.settled()
      assert.deepEqual([await the.row(), await the.attempts(the.id), await the.webhook(the.webhookId)], before)
      assert.equal((await the.row()).status, 'delivered')
    })

    it('is not repeated once the delivery has succeeded', async () => {
      const the = await one(delivered)
      await the.run()
      await the.run()
      assert.equal(the.sent.length, 1)
    })

    it('is released if the service stops before it completes, and is then repeated', async () => {
      const { promise: never } = Promise.withResolvers<typeof delivered>()
      let response: () => typeof delivered | Promise<typeof delivered> = () => never
      const the = await one(() => response())
      const stopping = await dispatch(the.post)
      while (the.sent.length === 0) await new Promise(setImmediate)
      await stopping.stop(20)
      stopping.wake()
      assert.deepEqual([(await the.row()).leaseUntil, (await the.row()).attempts], [null, 0])
      response = () => delivered
      await the.run()
      assert.deepEqual([the.sent.length, (await the.row()).status], [2, 'delivered'])
    })

    it('is completed and recorded if it is in flight when the service stops', async () => {
      const slow = Promise.withResolvers<typeof delivered>()
      const the = await one(() => slow.promise)
      const stopping = await dispatch(the.post)
      while (the.sent.length === 0) await new Promise(setImmediate)
      const stopped = stopping.stop(5_000)
      slow.resolve(delivered)
      await stopped
      assert.equal((await the.row()).status, 'delivered')
    })

    it('is not made if the webhook was deleted, paused or disabled', async () => {
      for (const status of ['deleted', 'paused', 'disabled'] as const) {
        const the = await one(delivered)
        const change = (tx: Database['read']) =>
          status === 'deleted'
            ? tx.deleteFrom('webhooks').where('id', '=', the.webhookId).execute()
            : tx.updateTable('webhooks').set({ status }).where('id', '=', the.webhookId).execute()
        await db.write(async (tx) => void (await change(tx)))
        await the.run()
        const { status: ended, attempts, leaseUntil } = await the.row()
        assert.deepEqual([the.sent.length, ended, attempts, leaseUntil], [0, 'failed', 0, null])
      }
    })

    it('does not count if an internal error prevents it: the error is logged, and the attempt is retried a minute later', async () => {
      const reported: unknown[] = []
      const the = await one(delivered, { onError: (error) => reported.push(error), limits: { ...limitsOfOne } })
      const other = await the.emit(the.owner)
      await fan(batch([{ eventId: other.id }]))
      const { secretSealed } = await the.webhook(the.webhookId)
      const seal = (text: string) =>
        db.write((tx) =>
          tx.updateTable('webhooks').set({ secretSealed: text }).where('id', '=', the.webhookId).execute(),
        )
      await seal('v1.AAAA')
      await the.run()
      assert.deepEqual([the.sent.length, reported.length], [0, 1], 'what waits beside it is not tried either')
      const { status, attempts, leaseUntil } = await the.row()
      assert.deepEqual([status, attempts, leaseUntil, await the.attempts(the.id)], ['pending', 0, null, []])
      const [lane] = await db.read.selectFrom('deliveryLanes').selectAll().execute()
      assert.deepEqual([lane?.failures, lane?.dueAt], [0, new Date(start + 60_000).toISOString()])
      assert.equal((await the.webhook(the.webhookId)).failingSince, null)
      await seal(secretSealed)
      clock.now = start + 60_000
      await the.run()
      assert.deepEqual([the.sent.length, reported.length, (await the.row()).status], [2, 1, 'delivered'])
    })

    it('fails the webhook’s other deliveries if the response is 410', async () => {
      const the = await one(gone, { limits: { ...limitsOfOne } })
      const other = await the.emit(the.owner)
      await fan(batch([{ eventId: other.id }]))
      await the.run()
      const [{ status, nextAttemptAt }] = (await the.deliveries(other.id)) as [Delivery]
      assert.deepEqual(
        { status, nextAttemptAt, sent: the.sent.length },
        { status: 'failed', nextAttemptAt: null, sent: 1 },
      )
      assert.equal((await the.webhook(the.webhookId)).failingSince, null)
    })

    it('does not conflict with a concurrent deletion of the webhook, in either order (T-WH-07)', async () => {
      for (const outcome of [failed, delivered, gone]) {
        const all = await Promise.all(Array.from({ length: 10 }, () => one(outcome)))
        const sender = await dispatch(async () => outcome)
        await Promise.all(all.map((the) => the.unsubscribe(the.owner, the.webhookId)))
        await sender.settled()
        for (const the of all) {
          const { status, nextAttemptAt, leaseUntil } = await the.row()
          assert.deepEqual([nextAttemptAt, leaseUntil], [null, null])
          assert.notEqual(status, 'pending')
        }
      }
    })

    it('counts even if a redelivery is requested while the call is in flight; the redelivery is still sent', async () => {
      const slow = Promise.withResolvers<typeof delivered>()
      const the = await one(() => (the.sent.length === 1 ? slow.promise : delivered))
      const sender = await dispatch(the.post)
      while (the.sent.length === 0) await new Promise(setImmediate)
      await db.write((tx) => tx.updateTable('deliveries').set({ round: 1 }).where('id', '=', the.id).execute())
      slow.resolve(delivered)
      await sender.settled()
      const { status, attempts } = await the.row()
      assert.deepEqual([the.sent.length, status, attempts], [2, 'delivered', 2])
    })

    it('is made only once for a test, even if the webhook is paused', async () => {
      const the = await one(failed)
      await db.write((tx) =>
        tx.updateTable('webhooks').set({ status: 'paused' }).where('id', '=', the.webhookId).execute(),
      )
      await db.write((tx) => tx.updateTable('deliveries').set({ isTest: 1 }).where('id', '=', the.id).execute())
      await the.run()
      const { status, attempts } = await the.row()
      assert.deepEqual([the.sent.length, status, attempts], [1, 'failed', 1])
    })
  })

  describe('a delivery', () => {
    let db: Database
    const clock = { now: start }
    const { one, fan } = dispatching(engine, clock, (opened) => {
      db = opened
    })

    it('is not scheduled twice if its event is fanned out twice (P4)', async () => {
      const the = await one(delivered)
      const event = await the.emit(the.owner, { callbackUrl: 'https://elsewhere.test/' })
      await fan(batch([{ eventId: event.id }]))
      await fan(batch([{ eventId: event.id }, { eventId: event.id }]))
      assert.equal((await the.deliveries(event.id)).length, 2)
    })

    it('is not scheduled by a fan-out that has lost its lease', async () => {
      const the = await one(delivered)
      const event = await the.emit(the.owner)
      const lost = { finish: async () => Promise.reject(new LeaseLost()) }
      await assert.rejects(fan(batch([{ eventId: event.id }], lost)), LeaseLost)
      assert.deepEqual(await the.deliveries(event.id), [])
    })

    it('is retried on the full schedule again after a manual redelivery', async () => {
      const the = await one(failed, { schedule: [0, 10] })
      await the.run()
      clock.now = start + 10_000
      await the.run()
      assert.deepEqual([(await the.row()).status, (await the.row()).attempts], ['failed', 2])
      const instant = new Date(clock.now).toISOString()
      await db.write(async (tx) => {
        await makeDue(tx, await the.webhook(the.webhookId), [the.id], instant)
        await tx.updateTable('deliveries').set({ lane: '' }).where('id', '=', the.id).execute()
      })
      let reported = 0
      await enqueueManual({ db, onAdded: () => reported++ })(
        batch([{ deliveryId: the.id }, { deliveryId: 'dlv_unknown' }]),
      )
      await the.run()
      const third = await the.row()
      assert.deepEqual([reported, the.sent.length, third.status, third.attempts], [1, 3, 'pending', 3])
      assert.equal(secondsAfterStart(third.nextAttemptAt), 20)
      clock.now = start + 20_000
      await the.run()
      const { status, attempts } = await the.row()
      assert.deepEqual([the.sent.length, status, attempts], [4, 'failed', 4])
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
