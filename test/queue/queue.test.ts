import assert from 'node:assert/strict'
import { once } from 'node:events'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { sql } from 'kysely'
import { openQueue } from '../../src/queue/open.ts'
import { type ClaimedJob, LeaseLost, leaseSeconds, type Queue, Stopping, type Work } from '../../src/queue/queue.ts'
import type { Database } from '../../src/storage/database.ts'
import { forEachEngine } from '../support/engines.ts'

interface Entry {
  job: ClaimedJob
  end: (error?: Error) => void
}

forEachEngine((engine) => {
  describe('the queue', () => {
    let db: Database
    let queue: Queue
    let skewMs = 0
    const errors: unknown[] = []

    const open = (options?: { isWorker: boolean }) =>
      openQueue({
        ...{ db, now: () => Date.now() + skewMs, random: () => 0.5, onError: (error: unknown) => errors.push(error) },
        ...options,
      })

    /** Returns the number of the queues' open connections; 0 on SQLite. */
    async function connections(): Promise<number> {
      if (engine.name === 'sqlite') return 0
      const open = sql<{ count: number }>`select count(*)::int as count from pg_stat_activity
        where datname = current_database() and application_name = 'plinth-queue'`
      return (await open.execute(db.read)).rows[0]?.count ?? 0
    }

    beforeEach(async () => {
      errors.length = 0
      skewMs = 0
      db = await engine.database()
      queue = await open()
    })
    afterEach(async () => {
      await queue.stop(1_000)
      await db.close()
    })

    /** Returns a worker that passes each job to the test through `next`, and holds the job until the test ends it. */
    function inbox(): { work: Work; next: () => Promise<Entry> } {
      const arrived: Entry[] = []
      const waiting: ((entry: Entry) => void)[] = []
      const work: Work = (job) =>
        new Promise((resolve, reject) => {
          const entry = { job, end: (error?: Error) => (error ? reject(error) : resolve()) }
          const taker = waiting.shift()
          taker ? taker(entry) : arrived.push(entry)
        })
      const next = () => {
        const entry = arrived.shift()
        return entry ? Promise.resolve(entry) : new Promise<Entry>((resolve) => waiting.push(resolve))
      }
      return { work, next }
    }

    const add = (payload: object, options?: { delayMs?: number }) =>
      db.write((tx) => queue.enqueue(tx, 'report.generate', payload, options))
    const finish = async ({ job, end }: { job: ClaimedJob; end: () => void }) => {
      await db.write((tx) => job.finish(tx))
      end()
    }

    it('delivers a committed job’s payload, as attempt 1', async () => {
      const { work, next } = inbox()
      queue.work('report.generate', work)
      await add({ taskId: 'tsk_1' })
      const entry = await next()
      assert.deepEqual(entry.job.payload, { taskId: 'tsk_1' })
      assert.equal(entry.job.attempt, 1)
      await finish(entry)
    })

    it('discards a job if its transaction is rolled back', async () => {
      const { work, next } = inbox()
      queue.work('report.generate', work)
      const rolledBack = db.write(async (tx) => {
        await queue.enqueue(tx, 'report.generate', { lost: true })
        throw new Error('no')
      })
      await assert.rejects(rolledBack, /no/)
      await add({ kept: true })
      const entry = await next()
      assert.deepEqual(entry.job.payload, { kept: true })
      await finish(entry)
    })

    it('delivers jobs from a process that only adds jobs, which opens at most one connection to PostgreSQL', async () => {
      await queue.stop(1_000)
      while ((await connections()) > 0);
      const adding = await open({ isWorker: false })
      const numbers = [1, 2, 3, 4, 5]
      await Promise.all(numbers.map((n) => db.write((tx) => adding.enqueue(tx, 'report.generate', { n }))))
      assert.ok((await connections()) <= 1)
      queue = await open()
      const { work, next } = inbox()
      queue.work('report.generate', work)
      const entries = await Promise.all(numbers.map(next))
      assert.deepEqual(entries.map(({ job }) => (job.payload as { n: number }).n).sort(), numbers)
      for (const entry of entries) await finish(entry)
      await adding.stop(1_000)
    })

    it('delivers a delayed job only when it is due', async () => {
      const { work, next } = inbox()
      queue.work('report.generate', work)
      const start = Date.now()
      await add({ delayed: true }, { delayMs: 700 })
      await add({ delayed: false })
      const first = await next()
      assert.deepEqual(first.job.payload, { delayed: false })
      await finish(first)
      const second = await next()
      assert.deepEqual(second.job.payload, { delayed: true })
      assert.ok(Date.now() - start >= 690)
      await finish(second)
    })

    it('retries a failed job as attempt 2; a finished job never runs again and cannot be finished again', async () => {
      const { work, next } = inbox()
      queue.work('report.generate', work)
      await add({ flaky: true })
      const first = await next()
      first.end(new Error('the first try fails'))
      const second = await next()
      assert.equal(second.job.attempt, 2)
      await finish(second)
      assert.match(String(errors[0]), /the first try fails/)
      await assert.rejects(
        db.write((tx) => second.job.finish(tx)),
        LeaseLost,
      )
      await lapse()
      const other = await open()
      other.work('report.generate', work)
      await add({ later: true })
      const third = await next()
      assert.deepEqual([third.job.payload, third.job.attempt], [{ later: true }, 1])
      await finish(third)
      await other.stop(1_000)
    })

    it('delivers each of 40 jobs to exactly one of two workers', async () => {
      const other = await open()
      const seen: number[] = []
      const all = Promise.withResolvers<void>()
      const work: Work = async (job) => {
        await db.write((tx) => job.finish(tx))
        seen.push((job.payload as { n: number }).n)
        if (seen.length === 40) all.resolve()
      }
      queue.work('report.generate', work)
      other.work('report.generate', work)
      await Promise.all(Array.from({ length: 40 }, (_, n) => add({ n })))
      await all.promise
      await other.stop(1_000)
      assert.deepEqual(
        seen.sort((a, b) => a - b),
        Array.from({ length: 40 }, (_, n) => n),
      )
    })

    it('rolls back the transaction of a worker that has lost its lease (F-ZOMBIE)', async () => {
      const { work, next } = inbox()
      queue.work('report.generate', work)
      await add({ slow: true })
      const stale = await next()
      await lapse()
      const other = await open()
      other.work('report.generate', work)
      const current = await next()
      assert.equal(current.job.attempt, 2)
      const overwrite = db.write(async (tx) => {
        await tx.insertInto('settings').values({ name: 'winner', value: 'stale' }).execute()
        await stale.job.finish(tx)
      })
      await assert.rejects(overwrite, LeaseLost)
      await finish(current)
      stale.end()
      await other.stop(1_000)
      assert.deepEqual(await db.read.selectFrom('settings').selectAll().execute(), [])
    })

    /** Makes the current lease expire without waiting. */
    async function lapse(): Promise<void> {
      if (engine.name === 'sqlite') {
        skewMs = (leaseSeconds + 1) * 1_000
        return
      }
      await sql`update pgboss.job set heartbeat_on = now() - interval '1 hour' where state = 'active'`.execute(db.read)
    }

    it('aborts running work on stop, and makes the job available to the next worker at once', async () => {
      const { work, next } = inbox()
      queue.work('report.generate', work)
      await add({ long: true })
      const running = await next()
      const aborted = once(running.job.signal, 'abort')
      const stopped = queue.stop(5_000)
      await aborted
      assert.ok(running.job.signal.reason instanceof Stopping)
      running.end(running.job.signal.reason)
      await stopped
      queue = await open()
      const fresh = inbox()
      queue.work('report.generate', fresh.work)
      const again = await fresh.next()
      assert.deepEqual(again.job.payload, { long: true })
      await finish(again)
      assert.deepEqual(errors, [])
    })
  })
})
