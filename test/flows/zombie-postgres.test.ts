import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { sql } from 'kysely'
import type { Database } from '../../src/storage/database.ts'
import { onPostgres } from '../support/engines.ts'
import { seedProducts } from '../support/kill.ts'
import { eventually, realService } from '../support/service.ts'

const rows = 40_000
const rounds = Number(process.env.ZOMBIES ?? 1)

/** Expires the lease of the only running report, as if its worker had sent no heartbeat for half a minute. */
async function age(db: Database): Promise<void> {
  await sql`update pgboss.job set heartbeat_on = now() - interval '10 minutes' where state = 'active'`.execute(db.read)
}

/** One of two nodes is suspended until its lease expires. Once resumed, it must not finish its job (F-ZOMBIE, P3). */
onPostgres((engine) => {
  describe('a worker that resumes after being suspended past its lease', () => {
    it('does not finish its report: only the result and the event of the other worker remain', {
      timeout: 120_000 * rounds,
    }, async () => {
      const place = await engine.place()
      const db = await seedProducts(place.url, rows)
      const shared = {
        DATABASE_URL: place.url,
        PLINTH_MASTER_KEY: 'ab'.repeat(32),
        PLINTH_BASE_URL: 'https://localhost',
      }
      const first = await realService(shared)
      const results = join(first.dataDir, 'results')
      const second = await realService({ ...shared, PLINTH_RESULTS_URL: `file:${results}` })
      try {
        await first.start()
        for (let round = 0; round < rounds; round++) {
          const body = { reportType: 'products', format: 'xlsx' }
          const id = (await first.call('POST', '/api/reports', { body })).json().taskId
          const read = () => db.read.selectFrom('tasks').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
          // The file exists, so the report is being generated: suspend the whole process.
          await eventually('the first works on it', async () => readdirSync(results).includes(`.${id}-1.part`))
          first.child().kill('SIGSTOP')
          assert.equal((await read()).status, 'in_progress')
          await age(db)
          await second.start()
          const task = await eventually('the second completes it', async () => {
            const found = await read()
            return found.status === 'completed' && found
          })
          first.child().kill('SIGCONT')
          await eventually(
            'the first has cleaned up after itself',
            async () => readdirSync(results).length === round + 1,
          )
          assert.deepEqual(await read(), task)
          assert.deepEqual([task.resultKey, task.attempts, task.rowCount], [`${id}-2`, 2, rows])
          const file = await first.call('GET', `/api/reports/${id}/download`)
          assert.equal(createHash('sha256').update(file.bytes).digest('base64'), task.sha256)
          const events = await db.read.selectFrom('events').select('id').where('body', 'like', `%${id}%`).execute()
          assert.equal(events.length, 1)
          await second.kill('SIGTERM')
        }
      } finally {
        await first.remove()
        await second.remove()
        await db.close()
        await place.remove()
      }
    })
  })
})
