import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { onSqlite } from '../support/engines.ts'
import { seedProducts } from '../support/kill.ts'
import { eventually, realService } from '../support/service.ts'

onSqlite((engine) => {
  describe('a process that resumes after being suspended past its lease', () => {
    it('is not replaced: a second process refuses to start, and the report is completed once', {
      timeout: 120_000,
    }, async () => {
      const place = await engine.place()
      const db = await seedProducts(place.url, 40_000)
      const shared = { DATABASE_URL: place.url, PLINTH_MASTER_KEY: 'ab'.repeat(32) }
      const [first, second] = [await realService(shared), await realService(shared)]
      try {
        await first.start()
        const body = { reportType: 'products', format: 'xlsx' }
        const id = (await first.call('POST', '/api/reports', { body })).json().taskId
        const results = join(first.dataDir, 'results')
        await eventually('it works on the report', async () => readdirSync(results).includes(`.${id}-1.part`))
        first.child().kill('SIGSTOP')
        const past = '2026-01-01T00:00:00.000Z'
        await db.write((tx) =>
          tx.updateTable('jobs').set({ leaseUntil: past }).where('leaseUntil', 'is not', null).execute(),
        )
        const refused = new RegExp(`ended with 2.*is used by process ${first.child().pid}, started at \\S+Z`, 's')
        await assert.rejects(second.start(), refused)
        const untouched = await db.read.selectFrom('jobs').select(['leaseUntil', 'attempts']).execute()
        assert.deepEqual(untouched, [{ leaseUntil: past, attempts: 1 }])
        first.child().kill('SIGCONT')
        const task = await eventually('it is completed', async () => {
          const found = await db.read.selectFrom('tasks').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
          return found.status === 'completed' && found
        })
        assert.equal(task.rowCount, 40_000)
        await eventually('one file is left', async () => readdirSync(results).length === 1)
        const events = await db.read.selectFrom('events').select('id').where('body', 'like', `%${id}%`).execute()
        assert.equal(events.length, 1)
      } finally {
        await first.remove()
        await second.remove()
        await db.close()
        await place.remove()
      }
    })
  })
})
