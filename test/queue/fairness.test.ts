import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { openQueue } from '../../src/queue/open.ts'
import type { ClaimedJob, Queue, Work } from '../../src/queue/queue.ts'
import { createTask } from '../../src/reports/tasks.ts'
import type { Database } from '../../src/storage/database.ts'
import { forEachEngine } from '../support/engines.ts'
import { eventually } from '../support/service.ts'

forEachEngine((engine) => {
  describe('several clients’ reports', () => {
    let db: Database
    let queues: Queue[]
    const errors: unknown[] = []

    beforeEach(async () => {
      db = await engine.database()
      queues = []
    })
    afterEach(async () => {
      for (const queue of queues) await queue.stop(1_000)
      await db.close()
      assert.deepEqual(errors.splice(0), [])
    })

    const open = async () => {
      const onError = (error: unknown) => errors.push(error)
      const queue = await openQueue({ db, now: Date.now, random: () => 0.5, onError })
      queues.push(queue)
      return queue
    }
    const owner = (clientId: string) => ({ clientId, subject: clientId, scopes: new Set<string>() })
    const requestReport = async (queue: Queue, client: string): Promise<void> => {
      const id = `tsk_${randomBytes(16).toString('base64url')}`
      const task = { id, reportType: 'products', format: 'csv', webhookUrl: null, versionPrefix: '' }
      await db.write((tx) => createTask(tx, queue, task, owner(client), new Date().toISOString()))
    }

    /** Returns a worker that records each job's client, and does not finish the job until the test calls `end`. */
    function heldWork() {
      const held: { client: string; end: () => Promise<void> }[] = []
      const order: string[] = []
      const work: Work = async (job: ClaimedJob) => {
        const { taskId } = job.payload as { taskId: string }
        const task = await db.write((tx) =>
          tx
            .updateTable('tasks')
            .set({ status: 'in_progress' })
            .where('id', '=', taskId)
            .returning('ownerClient')
            .executeTakeFirstOrThrow(),
        )
        order.push(task.ownerClient)
        const { promise, resolve } = Promise.withResolvers<void>()
        const ended = promise.then(() =>
          db.write(async (tx) => {
            await tx.updateTable('tasks').set({ status: 'completed' }).where('id', '=', taskId).execute()
            await job.finish(tx)
          }),
        )
        held.push({
          client: task.ownerClient,
          end: async () => {
            held.splice(
              held.findIndex((entry) => entry.end === end),
              1,
            )
            resolve()
            await ended
          },
        })
        const { end } = held.at(-1) as (typeof held)[number]
        await ended
      }
      return { work, held, order }
    }

    it('take turns, so a client with many reports does not delay a client with few', async () => {
      const queue = await open()
      for (let n = 0; n < 12; n++) await requestReport(queue, 'many')
      for (let n = 0; n < 3; n++) await requestReport(queue, 'few')
      const { work, held, order } = heldWork()
      queue.work('report.generate', work)
      for (let n = 0; n < 15; n++) {
        await eventually('a report is worked on', async () => held.length > 0)
        await held[0]?.end()
      }
      const last = order.lastIndexOf('few')
      assert.ok(last < 9, `the last of few came as number ${last + 1} of ${order.join(' ')}`)
      assert.equal(order.filter((client) => client === 'many').length, 12)
    })

    it('run at most five at a time per client, across all nodes', async () => {
      const [first, second] = [await open(), await open()]
      for (let n = 0; n < 8; n++) await requestReport(first, 'greedy')
      const { work, held } = heldWork()
      first.work('report.generate', work)
      await eventually('five are worked on', async () => held.length === 5)
      second.work('report.generate', work)
      await requestReport(first, 'modest')
      await eventually('the other client is served', async () => held.some(({ client }) => client === 'modest'))
      assert.equal(held.filter(({ client }) => client === 'greedy').length, 5)
      await held.find(({ client }) => client === 'greedy')?.end()
      await eventually('the sixth follows', async () => held.filter(({ client }) => client === 'greedy').length === 5)
      for (let left = 8; left > 0; left--) {
        await eventually('there is more to do', async () => held.length > 0)
        await held[0]?.end()
      }
    })
  })
})
