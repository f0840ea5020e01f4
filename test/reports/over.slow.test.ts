import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Database } from '../../src/storage/database.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

const taskSeconds = 3_600
const endedAt = '2026-03-01T12:00:00.000Z'
const overMs = Date.parse(endedAt) + taskSeconds * 1_000

forEachEngine((engine) => {
  describe('tasks and results that no sweep has removed', () => {
    let db: Database
    let test: TestApp
    before(async () => {
      db = await engine.database()
      test = await testApp(db, { prefixes: [''], taskSeconds })
    })
    after(async () => {
      const faults = [...test.faults]
      await test.app.close()
      await db.close()
      assert.deepEqual(faults, [])
    })

    const endedTask = async (status: 'completed' | 'failed') => {
      const payload = { reportType: 'books', format: 'csv' }
      const id = (await test.send({ method: 'POST', url: '/api/reports', payload })).json().taskId as string
      const values = { status, progress: 100, completedAt: endedAt, expiresAt: '2026-03-09T12:00:00.000Z' }
      await db.write((tx) => tx.updateTable('tasks').set(values).where('id', '=', id).execute())
      return id
    }
    const requests: [method: 'GET' | 'POST' | 'DELETE', part: string, headers?: Record<string, string>][] = [
      ['GET', ''],
      ['GET', '/status'],
      ['GET', '/status', { prefer: 'wait=30' }],
      ['GET', '/download'],
      ['GET', '/events'],
      ['GET', '/events', { 'last-event-id': '1' }],
      ['POST', '/cancel'],
      ['POST', '/retry'],
      ['DELETE', ''],
    ]
    const listed = async () =>
      (await test.send({ url: '/api/reports' })).json().map(({ taskId }: { taskId: string }) => taskId)

    for (const status of ['completed', 'failed'] as const) {
      it(`404 RESOURCE_NOT_FOUND on every path for a ${status} task from the instant it expires`, async () => {
        test.clock.now = Date.parse(endedAt)
        const id = await endedTask(status)
        test.clock.now = overMs - 1
        assert.equal((await test.send({ url: `/api/reports/${id}` })).statusCode, 200)
        assert.equal((await test.send({ url: `/api/reports/${id}/events` })).statusCode, 200)
        assert.ok((await listed()).includes(id))
        test.clock.now = overMs
        for (const [method, part, headers = {}] of requests) {
          const response = await test.send({ method, url: `/api/reports/${id}${part}`, headers })
          assert.deepEqual(
            [response.statusCode, response.json().errorCode],
            [404, 'RESOURCE_NOT_FOUND'],
            `${method} ${part}`,
          )
        }
        assert.ok(!(await listed()).includes(id))
        const kept = await db.read.selectFrom('tasks').select('revision').where('id', '=', id).executeTakeFirst()
        assert.deepEqual(kept, { revision: 1 })
      })
    }

    it('410 for the result from the instant it expires', async () => {
      test.clock.now = Date.parse(endedAt)
      const id = await endedTask('completed')
      const expiresAt = '2026-03-01T12:10:00.000Z'
      await db.write((tx) => tx.updateTable('tasks').set({ expiresAt }).where('id', '=', id).execute())
      test.clock.now = Date.parse(expiresAt)
      const response = await test.send({ url: `/api/reports/${id}/download` })
      assert.deepEqual([response.statusCode, response.json().errorCode], [410, 'RESULT_EXPIRED'])
    })

    it('200 for a task that has not ended, regardless of its age', async () => {
      test.clock.now = Date.parse(endedAt)
      const payload = { reportType: 'books', format: 'csv' }
      const id = (await test.send({ method: 'POST', url: '/api/reports', payload })).json().taskId
      test.clock.now = overMs * 2
      assert.equal((await test.send({ url: `/api/reports/${id}` })).statusCode, 200)
      assert.ok((await listed()).includes(id))
    })
  })
})
