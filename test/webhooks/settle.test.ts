import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Queue } from '../../src/queue/queue.ts'
import type { Database } from '../../src/storage/database.ts'
import { settledAtOnce, settleRest } from '../../src/webhooks/deliveries/settle.ts'
import { whyStopped } from '../../src/webhooks/dispatch/readers.ts'
import { claimDue } from '../../src/webhooks/queue/claim.ts'
import {
  defaultEndpointLimits,
  resetEndpointQueues,
  scheduleEndpointQueues,
} from '../../src/webhooks/queue/endpoint-queue.ts'
import { slotsOf } from '../../src/webhooks/queue/shares.ts'
import { forEachEngine } from '../support/engines.ts'
import { newOwner, steps } from '../support/webhooks.ts'

const many = settledAtOnce * 3 + 20
const [here, there] = ['http://127.0.0.1:9/here', 'http://127.0.0.1:9/there']

forEachEngine((engine) => {
  describe('a webhook with more waiting deliveries than one transaction settles', () => {
    let db: Database
    const jobs: { queue: string; payload: object }[] = []
    before(async () => {
      db = await engine.database()
    })
    after(() => db.close())

    const enqueue: Queue['enqueue'] = async (_, queue, payload) => void jobs.push({ queue, payload })
    /** Adds a webhook with waiting deliveries, a tenth of which require a scope that the owner's token lacks. */
    const waiting = async () => {
      const take = steps(db, { enqueue })
      const owner = newOwner()
      const { id } = await take.subscribe(owner, here)
      const at = (n: number) => new Date(Date.UTC(2026, 0, 1) + n).toISOString()
      const events = Array.from({ length: many }, (_, n) => ({
        ...{ id: `msg_${id}${n}`, type: 'user.created', ...owner, body: '{}', callbackUrl: null, createdAt: at(n) },
        audience: n % 10 === 0 ? 'users:read' : null,
      }))
      const deliveries = events.map((event, n) => ({
        ...{ id: `dlv_${id}${n}`, eventId: event.id, eventType: event.type, webhookId: id, lane: id, ...owner },
        ...({ url: here, body: '{}', status: 'pending', attempts: 0, createdAt: at(n), completedAt: null } as const),
        nextAttemptAt: at(n % 7),
      }))
      await db.write(async (tx) => {
        await tx.insertInto('events').values(events).execute()
        await tx.insertInto('deliveries').values(deliveries).execute()
        await scheduleEndpointQueues(tx, db, new Map([[id, at(0)]]))
      })
      jobs.length = 0
      const count = async (column: 'status' | 'url', value: string) =>
        (
          await db.read
            .selectFrom('deliveries')
            .select('id')
            .where('webhookId', '=', id)
            .where(column, '=', value as never)
            .execute()
        ).length
      const claim = async () => {
        await db.write((tx) => resetEndpointQueues(tx, db, id))
        const options = { db, limits: defaultEndpointLimits, leaseMs: 30_000, slots: slotsOf(4, []) }
        return (await claimDue(options, Date.now())).filter(({ webhookId }) => webhookId === id)
      }
      return { ...take, owner, id, count, claim }
    }
    /** Runs the pending jobs. */
    const runJobs = async () => {
      const work = settleRest({ db, now: Date.now })
      const { signal } = new AbortController()
      for (const { queue, payload } of jobs.splice(0)) {
        assert.equal(queue, 'webhook.settle')
        await work({ payload, attempt: 1, signal, finish: async () => {} })
      }
    }

    it('is paused immediately: one batch of deliveries fails at once, the others later, and none are sent', async () => {
      const fixture = await waiting()
      await fixture.change(fixture.owner, fixture.id, { status: 'paused' })
      assert.equal(await fixture.count('status', 'failed'), settledAtOnce)
      const claimed = await fixture.claim()
      assert.ok(claimed.length > 0 && claimed.every((due) => whyStopped(due) !== null))
      await runJobs()
      assert.equal(await fixture.count('status', 'failed'), many - claimed.length)
    })

    it('receives none of the waiting deliveries, even if it is active again before all of them have failed', async () => {
      const fixture = await waiting()
      await fixture.change(fixture.owner, fixture.id, { status: 'paused' })
      await fixture.change(fixture.owner, fixture.id, { status: 'active' })
      const claimed = await fixture.claim()
      assert.ok(claimed.length > 0 && claimed.every((due) => whyStopped(due) !== null))
      await runJobs()
      assert.equal(await fixture.count('status', 'pending'), claimed.length)
    })

    it('is called only at its new URL after a change, and only for events that the new scopes cover', async () => {
      const fixture = await waiting()
      await fixture.change(fixture.owner, fixture.id, { callbackUrl: there })
      assert.equal(await fixture.count('status', 'failed'), settledAtOnce / 10)
      assert.equal(await fixture.count('url', there), settledAtOnce - settledAtOnce / 10)
      for (const due of await fixture.claim()) {
        const event = db.read.selectFrom('events').select('audience').where('id', '=', due.eventId)
        const { audience } = await event.executeTakeFirstOrThrow()
        assert.equal(whyStopped(due)?.cause, audience === null ? undefined : 'not covered')
        if (audience === null) assert.equal(due.url, there)
      }
      await runJobs()
      assert.equal(
        await fixture.count('url', here),
        (await fixture.count('status', 'failed')) + (await stillAtOldAddress(fixture.id)),
      )
    })
    /**
     * Counts claimed deliveries whose rows still have the old address. Their calls use the new address anyway.
     */
    const stillAtOldAddress = async (id: string) => {
      const claimed = db.read.selectFrom('deliveries').select('id').where('webhookId', '=', id)
      const rows = claimed.where('leaseUntil', 'is not', null).where('url', '=', here).where('status', '=', 'pending')
      return (await rows.execute()).length
    }

    it('is deleted immediately: one batch of deliveries fails at once, the others later, and none are sent', async () => {
      const fixture = await waiting()
      await fixture.unsubscribe(fixture.owner, fixture.id)
      assert.equal(await fixture.count('status', 'failed'), settledAtOnce)
      const claimed = await fixture.claim()
      assert.ok(claimed.length > 0 && claimed.every((due) => whyStopped(due) !== null))
      await runJobs()
      assert.equal(await fixture.count('status', 'failed'), many - claimed.length)
    })
  })
})
