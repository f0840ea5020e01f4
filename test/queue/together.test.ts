import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { openQueue } from '../../src/queue/open.ts'
import type { Queue, WorkTogether } from '../../src/queue/queue.ts'
import type { Database } from '../../src/storage/database.ts'
import { forEachEngine } from '../support/engines.ts'
import { eventually } from '../support/service.ts'

forEachEngine((engine) => {
  describe('jobs processed in batches', () => {
    let db: Database
    let queue: Queue
    const errors: unknown[] = []

    beforeEach(async () => {
      errors.length = 0
      db = await engine.database()
      queue = await openQueue({ db, now: Date.now, random: () => 0, onError: (error) => errors.push(error) })
    })
    afterEach(async () => {
      await queue.stop(1_000)
      await db.close()
    })

    const add = (count: number) =>
      db.write(async (tx) => {
        for (let n = 0; n < count; n++) await queue.enqueue(tx, 'event.fan-out', { n })
      })

    /**
     * Returns a worker that records batch sizes and finished jobs, and fails every batch that contains a job selected by
     * `spoilt`.
     */
    function recordingWork(spoilt: (n: number) => boolean = () => false) {
      const sizes: number[] = []
      const done: number[] = []
      const together: WorkTogether = async ({ payloads, finish }) => {
        const numbers = (payloads as { n: number }[]).map(({ n }) => n)
        sizes.push(numbers.length)
        await db.write(async (tx) => {
          await finish(tx)
          if (numbers.some(spoilt)) throw new Error('one cannot be done')
        })
        done.push(...numbers)
      }
      return { sizes, done, together }
    }

    it('arrive in one batch and finish in one transaction, each exactly once', async () => {
      await add(20)
      const { sizes, done, together } = recordingWork()
      queue.work('event.fan-out', { together })
      await eventually('all are done', async () => done.length >= 20)
      assert.deepEqual(
        done.sort((a, b) => a - b),
        Array.from({ length: 20 }, (_, n) => n),
      )
      assert.deepEqual(sizes, [20])
      assert.deepEqual(errors, [])
    })

    it('are run one by one if a job makes the batch fail; then only that job is retried', async () => {
      await add(5)
      let tries = 0
      const { done, sizes, together } = recordingWork((n) => n === 3 && tries++ < 2)
      queue.work('event.fan-out', { together })
      await eventually('all are done', async () => done.length >= 5)
      assert.deepEqual(
        done.sort((a, b) => a - b),
        [0, 1, 2, 3, 4],
      )
      assert.deepEqual(sizes, [5, 1, 1, 1, 1, 1, 1])
      assert.equal(errors.length, 2)
    })
  })
})
