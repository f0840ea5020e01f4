import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openQueue } from '../../src/queue/open.ts'
import { queues } from '../../src/queue/queue.ts'
import { everyScope, testApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { eventually } from '../support/service.ts'

type Json = ReturnType<typeof JSON.parse>

const idle = { enqueue: async () => {}, work: () => {}, stop: async () => {} }

forEachEngine((engine) => {
  describe('GET /api/queues', () => {
    it('200 with every queue empty before any process has run a job', async () => {
      const db = await engine.database()
      const service = await testApp(db, { prefixes: [''], queue: idle })
      const listed: Json[] = (await service.send({ url: '/api/queues', scopes: 'admin' })).json()
      const empty = { waiting: 0, repeated: 0, running: 0 }
      assert.deepEqual(
        listed,
        Object.keys(queues).map((queue) => ({ queue, ...empty })),
      )
      await service.app.close()
      await db.close()
    })

    it('200 with the numbers of waiting, running and retried jobs in each queue; 403 without the admin scope', async (t) => {
      const db = await engine.database()
      const errors: unknown[] = []
      const now = Date.now
      const queue = await openQueue({ db, now, random: () => 0.5, onError: (error) => errors.push(error) })
      const service = await testApp(db, { prefixes: [''], queue, now })
      let end = (_error?: Error) => {}
      t.after(async () => {
        end(new Error('broken'))
        await service.app.close()
        await db.close()
      })
      const read = async (): Promise<Json> => {
        const listed: Json[] = (await service.send({ url: '/api/queues', scopes: 'admin' })).json()
        return listed.find((one) => one.queue === 'webhook.settle')
      }
      const add = () => db.write((tx) => queue.enqueue(tx, 'webhook.settle', {}))
      await add()
      await add()
      const waiting = await read()
      assert.deepEqual([waiting.waiting, waiting.running, waiting.repeated], [2, 0, 0])
      assert.ok(Date.parse(waiting.dueSince) <= Date.now())
      queue.work('webhook.settle', () => new Promise((_, reject) => (end = reject)))
      // Waiting and running jobs are counted in separate queries, so a job that starts in between is counted twice.
      const running = await eventually('a job runs, and the other one waits', async () => {
        const found = await read()
        return found.running === 1 && found.waiting === 1 && found
      })
      assert.equal(running.repeated, 0)
      end(new Error('broken'))
      await eventually('the failed job waits', async () => (await read()).repeated === 1)
      assert.match(String(errors[0]), /broken/)
      assert.equal((await service.send({ url: '/api/queues', scopes: everyScope })).statusCode, 403)
    })
  })
})
