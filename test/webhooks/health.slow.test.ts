import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, it } from 'node:test'
import { sql } from 'kysely'
import type { Database } from '../../src/storage/database.ts'
import type { CallOutcome, Tried } from '../../src/webhooks/dispatch/outcome.ts'
import { recordAttempts } from '../../src/webhooks/dispatch/record-attempts.ts'
import { claimDue } from '../../src/webhooks/queue/claim.ts'
import { defaultEndpointLimits, scheduleEndpointQueues } from '../../src/webhooks/queue/endpoint-queue.ts'
import { slotsOf } from '../../src/webhooks/queue/shares.ts'
import { forEachEngine } from '../support/engines.ts'
import { eventually } from '../support/service.ts'
import { batch, dispatching, outcomes, seal } from '../support/webhooks.ts'

const { failed, delivered, gone } = outcomes
const start = Date.parse('2026-03-01T12:00:00.000Z')
const hourMs = 3_600_000
const dayMs = 24 * hourMs
const limits = { ...defaultEndpointLimits, breakAfter: 1_000 }

/** Returns whether a statement is waiting for a lock. */
const isWaiting = async ({ read }: Database): Promise<boolean> => {
  const { rows } = await sql`
    select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(read)
  return rows.length > 0
}

forEachEngine((engine) => {
  describe('webhook health tracking', () => {
    let db: Database
    const clock = { now: start }
    const { one, fan, queue } = dispatching(engine, clock, (opened) => {
      db = opened
    })

    /** Creates an endpoint and makes a first call with this outcome. `call` makes another call after a delay. */
    async function endpoint(first: CallOutcome) {
      let response = first
      const fixture = await one(() => response, { schedule: [0], limits })
      await fixture.run()
      const call = async (afterMs: number, outcome: CallOutcome) => {
        clock.now += afterMs
        response = outcome
        await fan(batch([{ eventId: (await fixture.emit(fixture.owner)).id }]))
        await fixture.run()
      }
      const eventsOf = async (type: string) => {
        const query = db.read
          .selectFrom('events')
          .select(['body', 'exceptWebhook', 'ownerSubject'])
          .where('type', '=', type)
        return (await query.where('exceptWebhook', '=', fixture.webhookId).execute()).map(({ body }) =>
          JSON.parse(body),
        )
      }
      const responses = (outcome: CallOutcome) => {
        response = outcome
      }
      return { ...fixture, call, responses, eventsOf, row: () => fixture.webhook(fixture.webhookId) }
    }

    it('records when the webhook began to fail, and clears the time once a call succeeds', async () => {
      const { call, row } = await endpoint(failed)
      await call(60_000, failed)
      assert.equal((await row()).failingSince, new Date(start).toISOString())
      await call(60_000, delivered)
      const { failingSince, revision } = await row()
      assert.deepEqual([failingSince, revision], [null, 1])
    })

    it('notifies the owner once after a day of failures, and again only if a call has succeeded since', async () => {
      const { call, eventsOf, row, webhookId } = await endpoint(failed)
      await call(dayMs - 1, failed)
      assert.deepEqual(await eventsOf('webhook.failing'), [])
      await call(1, failed)
      const news = await eventsOf('webhook.failing')
      const since = new Date(start).toISOString()
      assert.deepEqual(news, [{ webhookId, event: '*', since, reason: 'No call has succeeded for a day' }])
      await call(dayMs, failed)
      assert.equal((await eventsOf('webhook.failing')).length, 1)
      await call(hourMs, delivered)
      await call(hourMs, failed)
      await call(dayMs, failed)
      assert.equal((await eventsOf('webhook.failing')).length, 2)
      assert.equal((await row()).status, 'active')
    })

    it('disables the webhook after five days and ten failed calls, with the reason, an event and an audit entry', async () => {
      const { call, eventsOf, row, webhookId } = await endpoint(failed)
      for (let n = 0; n < 9; n++) await call(hourMs, failed)
      assert.equal((await row()).status, 'active')
      await call(5 * dayMs - 9 * hourMs - 1, failed)
      assert.equal((await row()).status, 'active')
      await call(1, failed)
      const { status, statusReason, revision } = await row()
      assert.deepEqual([status, statusReason, revision], ['disabled', 'No call has succeeded for five days', 2])
      const [news] = await eventsOf('webhook.disabled')
      assert.deepEqual([news.webhookId, news.reason], [webhookId, statusReason])
      const entries = db.read.selectFrom('auditEntries').selectAll().where('target', '=', webhookId)
      const [entry] = await entries.where('event', '=', 'webhook.disabled').execute()
      assert.deepEqual(JSON.parse(entry?.details ?? ''), { reason: statusReason })
    })

    it('does not disable the webhook after fewer than ten failed calls, or if a call succeeded in between', async () => {
      const rare = await endpoint(failed)
      for (let n = 0; n < 8; n++) await rare.call(dayMs, failed)
      assert.equal((await rare.row()).status, 'active')
      clock.now = start
      const mended = await endpoint(failed)
      for (let n = 0; n < 12; n++) await mended.call(12 * hourMs, n === 6 ? delivered : failed)
      assert.equal((await mended.row()).status, 'active')
    })

    it('ignores a failed test call, but counts a successful one', async () => {
      const { call, row, owner, webhookId, emit, deliveries, run, responses } = await endpoint(delivered)
      const test = async (outcome: CallOutcome) => {
        responses(outcome)
        const { id } = await emit(owner)
        await fan(batch([{ eventId: id }]))
        const [delivery] = await deliveries(id)
        const lane = `${webhookId} test`
        await db.write(async (tx) => {
          const one = tx.updateTable('deliveries').where('id', '=', delivery?.id ?? '')
          await one.set({ isTest: 1, lane }).execute()
          await scheduleEndpointQueues(tx, db, new Map([[lane, delivery?.nextAttemptAt ?? '']]))
        })
        await run()
        assert.equal((await deliveries(id))[0]?.status, outcome.delivered ? 'delivered' : 'failed')
      }
      await test(failed)
      assert.equal((await row()).failingSince, null)
      await call(60_000, failed)
      assert.notEqual((await row()).failingSince, null)
      await test(failed)
      assert.notEqual((await row()).failingSince, null)
      await test(delivered)
      assert.equal((await row()).failingSince, null)
    })

    it('considers the webhook healthy after a success, even if another worker concurrently records a failure', async () => {
      const fixture = await endpoint(delivered)
      for (let n = 0; n < 2; n++) await fan(batch([{ eventId: (await fixture.emit(fixture.owner)).id }]))
      const claims = await claimDue({ db, limits, leaseMs: 30_000, slots: slotsOf(10, []) }, clock.now)
      const [bad, good] = claims.map((due, n) => {
        const outcome = n === 0 ? failed : delivered
        return { due, startedAt: new Date(clock.now).toISOString(), outcome }
      }) as [Tried, Tried]
      const options = {
        ...{ db, queue, sealer: seal, now: () => clock.now, random: randomBytes },
        ...{ limits, schedule: [0], jitter: () => 0.5 },
      }
      const [recorded, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      const failing = db.write(async (tx) => {
        await recordAttempts(tx, options, [bad])
        recorded.resolve()
        await end.promise
      })
      await recorded.promise
      const succeeding = db.write((tx) => recordAttempts(tx, options, [good]))
      if (engine.name === 'postgres') await eventually('the other waits for the lane', () => isWaiting(db))
      end.resolve()
      await Promise.all([failing, succeeding])
      assert.equal((await fixture.row()).failingSince, null)
    })

    it('disables the webhook immediately after a 410, with an event', async () => {
      const { eventsOf, row } = await endpoint(gone)
      const { status, statusReason } = await row()
      assert.deepEqual([status, statusReason], ['disabled', 'The endpoint responded with 410 Gone'])
      const [news] = await eventsOf('webhook.disabled')
      assert.deepEqual([news.reason, news.since], [statusReason, new Date(start).toISOString()])
    })
  })
})
