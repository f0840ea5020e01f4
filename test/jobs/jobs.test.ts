import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { backoffMs } from '../../src/jobs/run.ts'
import type { Attempt } from '../../src/jobs/served-jobs.ts'
import { expireJobs } from '../../src/jobs/start.ts'
import { cancelJob, retryJob } from '../../src/jobs/states.ts'
import { Stopping } from '../../src/queue/queue.ts'
import { forEachEngine } from '../support/engines.ts'
import { jobOf, jobsOn, served } from './support.ts'

const dayMs = 86_400_000

forEachEngine((engine) => {
  describe('a job', () => {
    const test = jobsOn(engine)
    const { add, node, reaches, rows, until } = test
    const failing = (message: string) => () => {
      throw new Error(message)
    }

    it('runs with its input, and is completed', async () => {
      const seen: [{ n: number }, number][] = []
      const worker = await node(served([jobOf('count', (input, { attempt }) => void seen.push([input, attempt]))]))
      await add(worker, { n: 7 })
      const row = await reaches('completed')
      assert.deepEqual(seen, [[{ n: 7 }, 1]])
      assert.deepEqual([row.attempts, row.failures, row.error], [1, 0, null])
      assert.notEqual(row.endedAt, null)
    })

    it('is not stored if its transaction is rolled back', async () => {
      const worker = await node(served([jobOf('count', () => {})]))
      const rolledBack = test.db.write(async (tx) => {
        await worker.enqueue(tx, 'count', { n: 1 })
        throw new Error('no')
      })
      await assert.rejects(rolledBack, /no/)
      assert.deepEqual(await rows(), [])
    })

    const invalid = [
      ['an unknown name', 'other', { n: 1 }, {}, 'job other: service() does not have a job of this name'],
      ['an invalid input', 'count', { n: 'x' }, {}, 'job count: the input must be { n } with an integer'],
      ['an empty key', 'count', { n: 1 }, { key: '' }, 'job count: key must be a text of 1 to 200 characters'],
      ['a negative delay', 'count', { n: 1 }, { after: -1 }, /after must be .* not -1$/],
      ['a delay in an unknown unit', 'count', { n: 1 }, { after: '14 dayz' }, /'14 days' .* not '14 dayz'$/],
      ['a delay without a number', 'count', { n: 1 }, { after: 'soon' }, /not 'soon'$/],
      ['an invalid date', 'count', { n: 1 }, { after: new Date('x') }, /not Invalid Date$/],
      ['a delay of 600 weeks', 'count', { n: 1 }, { after: '600 weeks' }, 'job count: after must be at most 10 years'],
    ] as const
    for (const [what, name, input, options, message] of invalid) {
      it(`cannot be added with ${what}`, async () => {
        const worker = await node(served([jobOf('count', () => {})]))
        await assert.rejects(add(worker, input, options, name), { name: 'TypeError', message })
        assert.deepEqual(await rows(), [])
      })
    }

    it('does not start before `after`, whether given as a string, milliseconds or a Date', async () => {
      const started: number[] = []
      const worker = await node(served([jobOf('count', ({ n }) => void started.push(n))]))
      const startMs = test.clock.now
      await add(worker, { n: 14 }, { after: '14 days' })
      await add(worker, { n: 1 }, { after: dayMs })
      await add(worker, { n: 2 }, { after: new Date(startMs + 2 * dayMs) })
      for (const [day, expected] of [
        [0.9, []],
        [1.1, [1]],
        [2.1, [1, 2]],
        [13.9, [1, 2]],
        [14.1, [1, 2, 14]],
      ] as const) {
        test.clock.now = startMs + day * dayMs
        await worker.work.check()
        for (const n of expected) await reaches('completed', n === 14 ? 0 : n)
        assert.deepEqual(started, expected)
      }
    })

    it('is retried with growing delays, then fails with its error, shortened and redacted', async () => {
      const redact = (text: string) => text.replace('hunter2', '…')
      const jobs = served([jobOf('count', failing(`no answer for hunter2 \0 ${'x'.repeat(3_000)}`), 2)])
      const worker = await node(jobs, { redact })
      await add(worker)
      for (const [failures, delayMs] of [
        [1, 10_000],
        [2, 30_000],
      ] as const) {
        const waiting = await until('tried again', (row) => row.failures === failures)
        assert.equal(Date.parse(waiting.dueAt), test.clock.now + delayMs)
        test.clock.now += delayMs - 1
        await worker.work.check()
        assert.equal((await rows())[0]?.queued, 0)
        test.clock.now += 1
        await worker.work.check()
      }
      const row = await reaches('failed')
      assert.deepEqual([row.attempts, row.failures], [3, 3])
      assert.match(row.error ?? '', /^Error: no answer for … \ufffd x+…$/)
      assert.equal(row.error?.length, 2_000)
      assert.deepEqual(
        test.failed.map(({ attempt, retryAt }) => [attempt, retryAt === null]),
        [
          [1, false],
          [2, false],
          [3, true],
        ],
      )
    })

    it('waits longer after each failure, up to 6 hours, with a jitter of ±20 %', () => {
      const times = [1, 2, 3, 20].map((failures) => backoffMs(failures, () => 0.5) / 1_000)
      assert.deepEqual(times, [10, 30, 90, 21_600])
      assert.deepEqual([backoffMs(1, () => 0), backoffMs(1, () => 0.999_999)], [8_000, 12_000])
    })

    it('fails without a retry if its stored input no longer matches the schema', async () => {
      const worker = await node(served([jobOf('count', () => {}, 5)]))
      await add(worker, { n: 1 }, { after: 1_000 })
      await test.db.write((tx) => tx.updateTable('declaredJobs').set({ input: '{"n":"old"}' }).execute())
      test.clock.now += 1_000
      await worker.work.check()
      const row = await reaches('failed')
      assert.equal(row.error, 'InvalidInput: the input must be { n } with an integer')
    })

    it('is not added while a job with the same name and key is waiting, but is added while one is running', async () => {
      const gate = Promise.withResolvers<void>()
      const begun = Promise.withResolvers<void>()
      const run = async () => {
        begun.resolve()
        await gate.promise
      }
      const worker = await node(served([jobOf('count', run), jobOf('other', () => {})]))
      await add(worker, { n: 1 }, { key: 'k', after: 1_000 })
      await add(worker, { n: 2 }, { key: 'k' })
      await add(worker, { n: 3 }, { key: 'k', after: 1_000 }, 'other')
      await add(worker, { n: 4 }, { key: 'l', after: dayMs })
      assert.deepEqual(
        (await rows()).map(({ input }) => input),
        ['{"n":1}', '{"n":3}', '{"n":4}'],
      )
      test.clock.now += 1_000
      await worker.work.check()
      await begun.promise
      await add(worker, { n: 5 }, { key: 'k' })
      assert.deepEqual((await rows()).at(-1)?.input, '{"n":5}')
      gate.resolve()
      await reaches('completed', 3)
    })

    it('is added only once by 20 concurrent transactions with the same key', async () => {
      const worker = await node(served([jobOf('count', () => {})]))
      const adding = Array.from({ length: 20 }, (_, n) => add(worker, { n }, { key: 'k', after: dayMs }))
      await Promise.all(adding)
      assert.equal((await rows()).length, 1)
    })

    it('receives an abort signal when it is cancelled while running, and stays cancelled', async () => {
      const begun = Promise.withResolvers<Attempt>()
      const ended = Promise.withResolvers<void>()
      const run = async (_: unknown, attempt: Attempt) => {
        begun.resolve(attempt)
        await new Promise((resolve) => attempt.signal.addEventListener('abort', resolve))
        ended.resolve()
      }
      const worker = await node(served([jobOf('count', run)]))
      await add(worker)
      const { id } = await begun.promise
      await test.db.write((tx) => cancelJob(tx, id, test.clock.now))
      await worker.work.check()
      await ended.promise
      await worker.stop()
      assert.deepEqual([(await rows())[0]?.status, test.failed], ['cancelled', []])
    })

    it('does not block the next job for long after its cancellation, even if its code ignores the abort signal', async () => {
      const begun = Promise.withResolvers<string>()
      const never = ({ n }: { n: number }, { id }: Attempt) => {
        begun.resolve(id)
        return n === 1 ? new Promise(() => {}) : undefined
      }
      const worker = await node(served([jobOf('count', never)]), { graceMs: 1, concurrency: 1 })
      await add(worker)
      await add(worker, { n: 2 })
      const id = await begun.promise
      await test.db.write((tx) => cancelJob(tx, id, test.clock.now))
      await worker.work.check()
      await reaches('completed', 1)
      assert.equal((await rows())[0]?.status, 'cancelled')
    })

    it('fails if an attempt takes longer than allowed', async () => {
      const run = (_: unknown, { signal }: Attempt) =>
        new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))))
      const worker = await node(served([jobOf('count', run)]), { limitMs: 5 })
      await add(worker)
      assert.equal((await reaches('failed')).error, 'Error: The attempt took longer than 5 ms')
    })

    it('returns to waiting when its worker stops, and is completed by another worker', async () => {
      const begun = Promise.withResolvers<void>()
      const first = await node(
        served([
          jobOf('count', (_, { signal }) => {
            begun.resolve()
            return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
          }),
        ]),
      )
      await add(first)
      await begun.promise
      await first.stop()
      assert.deepEqual([(await rows())[0]?.status, test.failed.length], ['waiting', 0])
      const reasons: unknown[] = []
      await node(served([jobOf('count', (_, { attempt }) => void reasons.push(attempt))]))
      const row = await reaches('completed')
      assert.deepEqual([reasons, row.interruptions, row.failures], [[2], 0, 0])
      assert.ok(!test.errors.some((error) => error instanceof Stopping))
    })

    it('is retried after its process has crashed five times, but fails after the sixth crash', async () => {
      const worker = await node(served([jobOf('count', () => {}, 5)]))
      await add(worker, { n: 1 }, { after: 1_000 })
      await test.db.write((tx) => tx.updateTable('declaredJobs').set({ interruptions: 5, attempts: 5 }).execute())
      test.clock.now += 1_000
      await worker.work.check()
      await reaches('completed')
      await add(worker, { n: 2 }, { after: 1_000 })
      // The state after a sixth crash: the row is still running, and its entry is in the queue.
      const crashed = { status: 'running', interruptions: 5, attempts: 5 } as const
      const [, second] = await rows()
      await test.db.write(async (tx) => {
        await tx
          .updateTable('declaredJobs')
          .set(crashed)
          .where('id', '=', second?.id ?? '')
          .execute()
        await worker.queue.enqueue(tx, 'job.run', { jobId: second?.id, turn: 1 })
      })
      assert.equal((await reaches('failed', 1)).error, 'Error: The process ended during 6 attempts')
    })

    it('waits while no node declares a job of its name, and runs once one does', async () => {
      const old = await node(served([jobOf('old', () => {})]))
      await add(old, { n: 1 }, {}, 'old')
      await reaches('completed')
      await old.stop()
      const gone = await node(served([jobOf('other', () => {})]))
      const { id } = (await rows())[0] ?? { id: '' }
      await test.db.write((tx) =>
        tx.updateTable('declaredJobs').set({ status: 'waiting', endedAt: null }).where('id', '=', id).execute(),
      )
      await test.db.write((tx) => gone.queue.enqueue(tx, 'job.run', { jobId: id, turn: 1 }))
      await until('set aside', ({ queued }) => queued === 0)
      await gone.work.check()
      assert.equal((await rows())[0]?.queued, 0)
      await gone.stop()
      const back = await node(served([jobOf('old', () => {})]))
      await back.work.check()
      assert.equal((await reaches('completed')).turn, 2)
    })

    it('runs again when retried; a retry throws STATE_CONFLICT while another job with its key is waiting', async () => {
      let isBroken = true
      const run = () => {
        if (isBroken) throw new Error('broken')
      }
      const worker = await node(served([jobOf('count', run)]))
      await add(worker, { n: 1 }, { key: 'k' })
      const { id } = await reaches('failed')
      await add(worker, { n: 2 }, { key: 'k', after: dayMs })
      const retry = () => test.db.write((tx) => retryJob(tx, id, test.clock.now))
      await assert.rejects(retry(), {
        code: 'STATE_CONFLICT',
        message: 'Another job with the same key is waiting',
      })
      const [, second] = await rows()
      await test.db.write((tx) => cancelJob(tx, second?.id ?? '', test.clock.now))
      isBroken = false
      assert.equal((await retry()).failures, 0)
      await worker.work.check()
      assert.equal((await reaches('completed')).attempts, 2)
      await assert.rejects(retry(), /The job is completed: only a job that has failed or was cancelled can be retried/)
    })

    it('is deleted 30 days after it ended, but never while it is waiting', async () => {
      const worker = await node(served([jobOf('count', () => {})]))
      await add(worker)
      await reaches('completed')
      await add(worker, { n: 2 }, { after: '60 days' })
      const sweep = () => expireJobs(test.db, () => test.clock.now, 30 * 86_400)
      test.clock.now += 29 * dayMs
      assert.equal(await sweep(), 0)
      test.clock.now += 2 * dayMs
      assert.equal(await sweep(), 1)
      assert.deepEqual(
        (await rows()).map(({ status }) => status),
        ['waiting'],
      )
    })

    it('runs only once, even with two workers (40 jobs)', async () => {
      const seen: number[] = []
      const jobs = served([jobOf('count', ({ n }) => void seen.push(n))])
      const [one, other] = [await node(jobs), await node(jobs)]
      await Promise.all(
        Array.from({ length: 40 }, (_, n) => add(n % 2 ? one : other, { n }, n % 3 ? {} : { after: 5 })),
      )
      test.clock.now += 1_000
      await Promise.all([one.work.check(), other.work.check()])
      for (let at = 0; at < 40; at++) await reaches('completed', at)
      assert.deepEqual(
        seen.toSorted((a, b) => a - b),
        Array.from({ length: 40 }, (_, n) => n),
      )
    })
  })
})
