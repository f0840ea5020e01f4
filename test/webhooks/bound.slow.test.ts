import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, it } from 'node:test'
import { readConfig } from '../../src/config/config.ts'
import type { Database } from '../../src/storage/database.ts'
import { makeDue } from '../../src/webhooks/deliveries/enqueue.ts'
import { findDelivery } from '../../src/webhooks/deliveries/list.ts'
import { waitingBound } from '../../src/webhooks/deliveries/waiting-bound.ts'
import { forEachEngine } from '../support/engines.ts'
import { batch, dispatching, newOwner, outcomes, steps } from '../support/webhooks.ts'

const start = Date.parse('2026-03-01T12:00:00.000Z')
const hourMs = 3_600_000

describe('PLINTH_WEBHOOK_MAX_WAITING', () => {
  it('defaults to 100,000 deliveries and must be at least 100', () => {
    assert.equal(readConfig({}).webhooks.maxWaiting, 100_000)
    assert.equal(readConfig({ PLINTH_WEBHOOK_MAX_WAITING: '500' }).webhooks.maxWaiting, 500)
    assert.throws(() => readConfig({ PLINTH_WEBHOOK_MAX_WAITING: '99' }), /PLINTH_WEBHOOK_MAX_WAITING=99/)
  })
})

forEachEngine((engine) => {
  describe('an owner’s waiting deliveries', () => {
    let db: Database
    const clock = { now: start }
    const dispatchers = dispatching(engine, clock, (opened) => {
      db = opened
    })
    const { queue } = dispatchers

    /** Creates an owner with one webhook. The returned `add` records events and fans them out, subject to the limit. */
    async function bounded(maxWaiting: number, owner = newOwner()) {
      const fixture = steps(db, queue)
      const reported: [string, number][] = []
      const onDropped = (of: string, dropped: number) => void reported.push([of, dropped])
      const bound = waitingBound({ db, queue, now: () => clock.now, random: randomBytes, maxWaiting, onDropped })
      const { id: webhookId } = await fixture.subscribe(
        owner,
        `https://bounded-${randomBytes(4).toString('hex')}.test/`,
      )
      const add = async (count: number) => {
        for (let n = 0; n < count; n++) {
          clock.now += 1
          await dispatchers.fan(batch([{ eventId: (await fixture.emit(owner)).id }]), { bound })
        }
      }
      const rows = () =>
        db.read.selectFrom('deliveries').selectAll().where('webhookId', '=', webhookId).orderBy('id').execute()
      const states = async () => (await rows()).map(({ status }) => status)
      const events = () =>
        db.read.selectFrom('events').selectAll().where('type', '=', 'webhook.failing').orderBy('id').execute()
      const notices = async () =>
        (await events())
          .filter(({ ownerClient }) => ownerClient === owner.ownerClient)
          .map(({ body }) => JSON.parse(body))
      return { ...fixture, owner, webhookId, bound, add, rows, states, notices, reported }
    }

    it('fail, oldest first, once they exceed the limit; the delivery log shows the reason', async () => {
      const fixture = await bounded(5)
      await fixture.add(5)
      assert.deepEqual(await fixture.states(), Array(5).fill('pending'))
      await fixture.add(3)
      assert.deepEqual(await fixture.states(), [...Array(3).fill('failed'), ...Array(5).fill('pending')])
      const [first] = await fixture.rows()
      const delivery = await findDelivery(db.read, fixture.webhookId, first?.id ?? '')
      assert.deepEqual(
        [delivery.status, delivery.reason, delivery.attempts, 'nextAttemptAt' in delivery],
        ['failed', 'Dropped: more than 5 of your deliveries were waiting', [], false],
      )
      assert.ok(delivery.completedAt)
    })

    it('never cause other owners’ deliveries to be dropped, regardless of their number', async () => {
      const modest = await bounded(5)
      await modest.add(3)
      const greedy = await bounded(5)
      await greedy.add(9)
      assert.deepEqual(await modest.states(), Array(3).fill('pending'))
      assert.equal((await greedy.states()).filter((status) => status === 'pending').length, 5)
    })

    it('are counted when dropped, and reported to the owner in a webhook.failing event at most once an hour', async () => {
      const fixture = await bounded(5)
      await fixture.add(6)
      const [event, ...others] = await fixture.notices()
      assert.deepEqual(others, [])
      assert.deepEqual(
        [event.webhookId, event.event, event.reason],
        [fixture.webhookId, '*', 'More than 5 of your deliveries were waiting: the oldest were dropped (1)'],
      )
      await fixture.add(4)
      assert.equal((await fixture.notices()).length, 1)
      clock.now += hourMs
      await fixture.add(1)
      const notices = await fixture.notices()
      assert.equal(notices.length, 2)
      assert.equal(notices[1].reason, 'More than 5 of your deliveries were waiting: the oldest were dropped (5)')
      const owner = `${fixture.owner.ownerClient} ${fixture.owner.ownerSubject}`
      assert.deepEqual(fixture.reported, [
        [owner, 1],
        [owner, 5],
      ])
      const drops = db.read.selectFrom('deliveryDrops').selectAll().where('owner', '=', owner)
      const { total, unreported } = await drops.executeTakeFirstOrThrow()
      assert.deepEqual([total, unreported], [6, 0])
    })

    it('are not dropped while in flight', async () => {
      const fixture = await bounded(2)
      await fixture.add(2)
      const [first] = await fixture.rows()
      await db.write((tx) =>
        tx
          .updateTable('deliveries')
          .set({ leaseUntil: new Date(clock.now + 30_000).toISOString() })
          .where('id', '=', first?.id ?? '')
          .execute(),
      )
      await fixture.add(2)
      assert.deepEqual(await fixture.states(), ['pending', 'failed', 'pending', 'pending'])
    })

    it('are dropped in batches if their number far exceeds the limit', async () => {
      const before = await bounded(100_000)
      await before.add(1)
      const [one] = await before.rows()
      const rows = Array.from({ length: 3_000 }, (_, n) => ({
        ...(one as NonNullable<typeof one>),
        id: `dlv_0${String(n).padStart(6, '0')}`,
        url: `https://old.test/${n}`,
      }))
      for (let at = 0; at < rows.length; at += 500) {
        await db.write((tx) =>
          tx
            .insertInto('deliveries')
            .values(rows.slice(at, at + 500))
            .execute(),
        )
      }
      const fixture = await bounded(100, before.owner)
      const waiting = async () =>
        (
          await db.read
            .selectFrom('deliveries')
            .select('id')
            .where('ownerClient', '=', fixture.owner.ownerClient)
            .where('status', '=', 'pending')
            .execute()
        ).length
      const counts: number[] = []
      for (let n = 0; n < 12 && counts.at(-1) !== 100; n++) {
        await fixture.add(1)
        counts.push(await waiting())
      }
      const [first = 0, last = Number.POSITIVE_INFINITY] = [counts[0], counts.at(-1)]
      assert.ok(last >= 100 && last <= 102, counts.join())
      assert.ok(first > 1_000, 'not all at once')
    })

    it('become pending again, without a failure reason, if redelivered after being dropped', async () => {
      const fixture = await bounded(1)
      await fixture.add(2)
      const [first] = await fixture.rows()
      const instant = new Date(clock.now).toISOString()
      await db.write(async (tx) => makeDue(tx, await fixture.webhook(fixture.webhookId), [first?.id ?? ''], instant))
      const delivery = await findDelivery(db.read, fixture.webhookId, first?.id ?? '')
      assert.deepEqual([delivery.status, 'reason' in delivery], ['pending', false])
    })

    it('are added in four transactions for 1,202 endpoints, without duplicates after a repeated or failed fan-out', async () => {
      const fixture = steps(db, queue)
      const one = newOwner()
      const { id } = await fixture.subscribe(one, 'https://many.test/0')
      const row = await fixture.webhook(id)
      const rows = Array.from({ length: 1_200 }, (_, n) => ({
        ...row,
        id: `whk_many_${String(n).padStart(6, '0')}`,
        callbackUrl: `https://many.test/${n + 1}`,
      }))
      for (let at = 0; at < rows.length; at += 400) {
        await db.write((tx) =>
          tx
            .insertInto('webhooks')
            .values(rows.slice(at, at + 400))
            .execute(),
        )
      }
      const event = await fixture.emit(one, { callbackUrl: 'https://of-the-request.test/' })
      const jobs = batch([{ eventId: event.id }])
      let added = 0
      await dispatchers.fan(jobs, { onAdded: () => added++ })
      const found = await fixture.deliveries(event.id)
      assert.deepEqual([added, found.length, found.filter(({ webhookId }) => webhookId === null).length], [4, 1_202, 1])
      await dispatchers.fan(jobs)
      assert.equal((await fixture.deliveries(event.id)).length, 1_202)
      const stale = await fixture.emit(one, { callbackUrl: 'https://stale.test/' })
      const losing = batch([{ eventId: stale.id }], { finish: () => Promise.reject(new Error('the lease is lost')) })
      await assert.rejects(dispatchers.fan(losing), /the lease is lost/)
      const partly = (await fixture.deliveries(stale.id)).length
      assert.ok(partly > 0 && partly < 1_202, String(partly))
      await dispatchers.fan(batch([{ eventId: stale.id }]))
      const urls = (await fixture.deliveries(stale.id)).map(({ url }) => url)
      assert.deepEqual([urls.length, new Set(urls).size], [1_202, 1_202])
      await db.write((tx) => tx.deleteFrom('webhooks').where('ownerClient', '=', one.ownerClient).execute())
    })

    it('no longer count toward the limit once delivered', async () => {
      const fixture = await bounded(5)
      await fixture.add(4)
      const node = await dispatchers.start(async () => outcomes.delivered)
      await node.settled()
      await node.stop(0)
      await fixture.add(5)
      assert.deepEqual(await fixture.states(), [...Array(4).fill('delivered'), ...Array(5).fill('pending')])
    })
  })
})
