import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { maxBacklog } from '../../src/reports/generate/fair-queue.ts'
import { appOn } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

forEachEngine((engine) => {
  describe('POST /api/reports with a full backlog', () => {
    const service = appOn(engine)
    const at = '2026-03-01T12:00:00.000Z'
    const row = (number: number) => ({
      ...{ id: `tsk_${String(number).padStart(22, '0')}`, reportType: 'books', format: 'csv', parameters: null },
      ...{ webhookUrl: null, status: 'pending' as const, progress: 0, attempts: 0, versionPrefix: '', revision: 1 },
      ...{ ownerClient: `cli_${number % 200}`, ownerSubject: 'x', turn: 1, createdAt: at, updatedAt: at },
    })
    before(async () => {
      await service.db.write(async (tx) => {
        for (let first = 0; first < maxBacklog; first += 500) {
          const rows = Array.from({ length: 500 }, (_, number) => row(first + number))
          await tx.insertInto('tasks').values(rows).execute()
        }
      })
    })
    const requestReport = () =>
      service.send({ method: 'POST', url: '/api/reports', payload: { reportType: 'books', format: 'csv' } })

    it('503 with Retry-After, and no task is created', async () => {
      const response = await requestReport()
      assert.equal(response.statusCode, 503)
      assert.equal(response.json().errorCode, 'SERVICE_UNAVAILABLE')
      assert.ok(Number(response.headers['retry-after']) >= 1)
      service.faults.splice(0)
      const { count } = await service.db.read
        .selectFrom('tasks')
        .select((tasks) => tasks.fn.countAll<number>().as('count'))
        .executeTakeFirstOrThrow()
      assert.equal(Number(count), maxBacklog)
    })

    it('202 once one of the tasks has ended', async () => {
      const change = { status: 'failed' as const }
      const one = row(7).id
      await service.db.write((tx) => tx.updateTable('tasks').set(change).where('id', '=', one).execute())
      assert.equal((await requestReport()).statusCode, 202)
      assert.equal((await requestReport()).statusCode, 503)
      service.faults.splice(0)
    })
  })
})
