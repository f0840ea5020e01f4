import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Database } from '../../src/storage/database.ts'
import type { CallOutcome } from '../../src/webhooks/dispatch/outcome.ts'
import { expireStatistics, statisticsOf } from '../../src/webhooks/statistics.ts'
import { forEachEngine } from '../support/engines.ts'
import { batch, dispatching, outcomes } from '../support/webhooks.ts'

const { failed, delivered } = outcomes
const start = Date.parse('2026-03-01T12:30:00.000Z')
const hourMs = 3_600_000

forEachEngine((engine) => {
  describe('the statistics of a webhook', () => {
    let db: Database
    const clock = { now: start }
    const { one, fan } = dispatching(engine, clock, (opened) => {
      db = opened
    })

    /** Creates an endpoint and makes a first call. `call` makes another call, and `read` returns the statistics. */
    async function endpoint(first: CallOutcome) {
      let outcome = first
      const fixture = await one(() => outcome, { schedule: [0] })
      await fixture.run()
      const call = async (next: CallOutcome) => {
        outcome = next
        await fan(batch([{ eventId: (await fixture.emit(fixture.owner)).id }]))
        await fixture.run()
      }
      const read = async () => {
        const [statistics, ...rest] = await statisticsOf(db, [await fixture.webhook(fixture.webhookId)], clock.now)
        assert.ok(statistics && rest.length === 0)
        return statistics
      }
      return { ...fixture, call, read }
    }
    const took = (durationMs: number): CallOutcome => ({ ...delivered, durationMs })

    it('are zero before the first attempt, without a success rate or latencies', async () => {
      const { webhookId, webhook } = await one(delivered)
      const [statistics] = await statisticsOf(db, [await webhook(webhookId)], clock.now)
      const { hours, ...rest } = statistics ?? { hours: [] }
      assert.deepEqual(rest, { webhookId, consecutiveFailures: 0, attempts: 0, succeeded: 0, failed: 0 })
      assert.equal(hours.length, 24)
      assert.deepEqual(hours.at(-1), { start: '2026-03-01T12:00:00.000Z', succeeded: 0, failed: 0 })
    })

    it('count attempts by outcome and hour, with the failures since the last success', async () => {
      const { call, read, webhookId } = await endpoint(took(10))
      clock.now += hourMs
      const failingSince = new Date(clock.now).toISOString()
      for (const outcome of [failed, failed]) await call(outcome)
      const { hours, p50Ms, p95Ms, ...rest } = await read()
      const sums = { attempts: 3, succeeded: 1, failed: 2, successRate: 0.3333 }
      assert.deepEqual(rest, { webhookId, failingSince, consecutiveFailures: 2, ...sums })
      const counts = hours.slice(-2).map(({ start: at, succeeded, failed: none }) => [at, succeeded, none])
      assert.deepEqual(counts, [
        ['2026-03-01T12:00:00.000Z', 1, 0],
        ['2026-03-01T13:00:00.000Z', 0, 2],
      ])
      await call(delivered)
      const after = await read()
      assert.deepEqual([after.failingSince, after.consecutiveFailures, after.attempts], [undefined, 0, 4])
    })

    it('estimate p50 and p95 latencies to within the histogram ranges of the attempts', async () => {
      const { call, read } = await endpoint(took(30))
      for (let n = 0; n < 8; n += 1) await call(took(30))
      await call(took(60_000))
      const { p50Ms = 0, p95Ms = 0 } = await read()
      assert.ok(p50Ms > 25 && p50Ms <= 50, String(p50Ms))
      assert.ok(p95Ms > 10_000 && p95Ms <= 15_000, String(p95Ms))
    })

    it('exclude attempts that are 24 hours old, which the sweep later deletes', async () => {
      const { read, webhookId } = await endpoint(delivered)
      clock.now += 23 * hourMs
      assert.equal((await read()).attempts, 1)
      assert.equal(await expireStatistics(db, () => clock.now), 0)
      clock.now += hourMs
      assert.equal((await read()).attempts, 0)
      clock.now += hourMs
      assert.ok((await expireStatistics(db, () => clock.now)) > 0)
      const rows = db.read.selectFrom('webhookStatistics').selectAll().where('webhookId', '=', webhookId)
      assert.deepEqual(await rows.execute(), [])
    })
  })
})
