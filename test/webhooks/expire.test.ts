import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { sql } from 'kysely'
import type { Database } from '../../src/storage/database.ts'
import { expireDeliveries } from '../../src/webhooks/expire.ts'
import { forEachEngine } from '../support/engines.ts'
import { batch, dispatching, outcomes } from '../support/webhooks.ts'

const start = Date.parse('2026-03-01T12:00:00.000Z')
const dayMs = 86_400_000

forEachEngine((engine) => {
  describe('the delivery-log sweep', () => {
    let db: Database
    const clock = { now: start }
    const { one, fan } = dispatching(engine, clock, (opened) => {
      db = opened
    })
    const now = () => clock.now
    const count = async (table: 'deliveries' | 'attempts' | 'events' | 'deliveryLanes') =>
      (await db.read.selectFrom(table).selectAll().execute()).length

    it('keeps completed deliveries with their attempts and events for 30 days, and waiting deliveries indefinitely', async () => {
      const fixture = await one(outcomes.delivered)
      await fixture.run()
      const { id } = await fixture.emit(fixture.owner, { callbackUrl: 'https://later.test/' })
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
      assert.equal((await fixture.deliveries(id))[0]?.status, 'pending')
    })

    it('deletes 1,201 expired deliveries and their events in one run', async () => {
      const ended = new Date(start - 31 * dayMs).toISOString()
      const rows = JSON.stringify(Array.from({ length: 1_201 }, (_, n) => [`old_${n}`]))
      await db.write(async (tx) => {
        const ids = db.engine.jsonRows(rows)
        await sql`insert into events (id, type, owner_client, owner_subject, body, created_at)
          select value ->> 0, 'report.failed', 'cli', 'cli', '{}', ${ended} from ${ids}`.execute(tx)
        await sql`insert into deliveries (id, event_id, url, body, status, attempts, created_at, completed_at)
          select value ->> 0, value ->> 0, '', '{}', 'failed', 1, ${ended}, ${ended} from ${ids}`.execute(tx)
      })
      assert.equal(await expireDeliveries(db, now), 1_201)
      const left = db.read.selectFrom('events').select('id').where('id', 'like', 'old%')
      assert.deepEqual([await count('deliveries'), await left.execute()], [0, []])
    })

    it('deletes at most 300 rows per transaction, except for a single delivery with more attempts', async () => {
      const ended = new Date(start - 31 * dayMs).toISOString()
      const attemptsOf = [...Array.from({ length: 120 }, () => 7), 400, 0, 0]
      await db.write(async (tx) => {
        for (const [n, attempts] of attemptsOf.entries()) {
          await sql`insert into deliveries (id, event_id, url, body, status, attempts, created_at, completed_at)
            values (${`many_${n}`}, ${n}, '', '{}', 'failed', ${attempts}, ${ended}, ${ended})`.execute(tx)
          if (attempts === 0) continue
          await sql`insert into attempts (delivery_id, attempt, started_at, duration_ms)
            with recursive s(n) as (select 1 union all select n + 1 from s where n < ${sql.lit(attempts)})
            select ${`many_${n}`}, n, ${ended}, 1 from s`.execute(tx)
        }
      })
      const removed: number[] = []
      const left = async () => (await count('deliveries')) + (await count('attempts'))
      const write: Database['write'] = async (unit) => {
        const before = await left()
        const result = await db.write(unit)
        removed.push(before - (await left()))
        return result
      }
      assert.equal(await expireDeliveries({ ...db, write }, now), attemptsOf.length)
      assert.equal(await left(), 0)
      assert.ok(
        removed.every((rows) => rows <= 300 || rows === 401),
        removed.join(),
      )
    })

    it('keeps a delivery that is redelivered during the sweep, with its attempts', async () => {
      const fixture = await one(outcomes.delivered)
      await fixture.run()
      clock.now = start + 31 * dayMs
      const [changed, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      const redelivered = {
        status: 'pending',
        completedAt: null,
        nextAttemptAt: new Date(clock.now).toISOString(),
      } as const
      const sending = db.write(async (tx) => {
        await tx.updateTable('deliveries').set(redelivered).where('id', '=', fixture.id).execute()
        changed.resolve()
        await end.promise
      })
      await changed.promise
      const expiring = expireDeliveries(db, now)
      // Waits long enough for all queries that are not blocked by the transaction.
      for (let n = 0; n < 20; n++) await new Promise(setImmediate)
      end.resolve()
      await Promise.all([sending, expiring])
      assert.deepEqual([(await fixture.row()).status, (await fixture.attempts(fixture.id)).length], ['pending', 1])
    })

    it('keeps endpoint queues that have a webhook or a waiting delivery, and deletes all others', async () => {
      const fixture = await one(outcomes.failed)
      await fixture.run()
      const { id } = await fixture.emit(fixture.owner, { callbackUrl: 'https://once.test/' })
      await fan(batch([{ eventId: id }]))
      await expireDeliveries(db, now)
      assert.equal(await count('deliveryLanes'), 2)
      await fixture.run()
      await db.write((tx) => tx.updateTable('deliveries').set({ status: 'failed' }).execute())
      await db.write((tx) => tx.updateTable('deliveryLanes').set({ dueAt: null }).execute())
      await expireDeliveries(db, now)
      const [left] = await db.read.selectFrom('deliveryLanes').selectAll().execute()
      assert.deepEqual([left?.lane, left?.failures], [fixture.webhookId, 2])
      await fixture.unsubscribe(fixture.owner, fixture.webhookId)
      await expireDeliveries(db, now)
      assert.equal(await count('deliveryLanes'), 0)
    })
  })
})
