import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { addJobRow } from '../oauth/matrix.ts'
import { appOn } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { jobOf, served } from './support.ts'

type Json = ReturnType<typeof JSON.parse>

const chase = { name: 'chase', cron: '0 8 * * 1-5', zone: 'Europe/Berlin', missed: 'once' } as const

forEachEngine((engine) => {
  describe('the routes of jobs', () => {
    const jobs = served([jobOf('remind', () => {}), jobOf('chase', () => {})], [chase])
    const service = appOn(engine, { prefixes: [''], jobs })
    let count = 0
    const scopes = 'admin'
    const add = (status: 'waiting' | 'failed') => addJobRow(service.db, ++count, status)
    const get = (url: string) => service.send({ url, scopes })
    const post = (url: string, headers = {}) => service.send({ method: 'POST', url, scopes, headers })
    const idsOf = (answer: Awaited<ReturnType<typeof get>>) => answer.json().map(({ id }: Json) => id)

    it('200 with a job without its input, 404 for an unknown id', async () => {
      const id = await add('failed')
      await service.db.write((tx) =>
        tx.updateTable('declaredJobs').set({ error: 'Error: no', key: 'k', attempts: 2, failures: 2 }).execute(),
      )
      const at = '2026-01-01T00:00:00.000Z'
      assert.deepEqual((await get(`/api/jobs/${id}`)).json(), {
        ...{ id, name: 'remind', status: 'failed', key: 'k', attempts: 2, failures: 2, error: 'Error: no' },
        ...{ createdAt: at, endedAt: at },
      })
      assert.equal((await get('/api/jobs/job_0')).statusCode, 404)
    })

    it('200 with jobs filtered by name and status, newest first, in pages', async () => {
      await service.db.write((tx) => tx.deleteFrom('declaredJobs').execute())
      const ids = [await add('waiting'), await add('failed'), await add('waiting'), await add('failed')]
      const [first, second, third, fourth] = ids
      await service.db.write((tx) =>
        tx
          .updateTable('declaredJobs')
          .set({ name: 'removed' })
          .where('id', 'in', [first ?? '', fourth ?? ''])
          .execute(),
      )
      assert.deepEqual(idsOf(await get('/api/jobs')), ids.toReversed())
      assert.deepEqual(idsOf(await get('/api/jobs?name=remind')), [third, second])
      assert.deepEqual(idsOf(await get('/api/jobs?status=failed')), [fourth, second])
      assert.deepEqual(idsOf(await get('/api/jobs?status=waiting')), [third])
      assert.deepEqual(idsOf(await get('/api/jobs?status=unknown')), [first])
      assert.deepEqual(idsOf(await get('/api/jobs?status=failed&name=removed')), [fourth])
      assert.equal((await get(`/api/jobs/${first}`)).json().status, 'unknown')
      const page = await get('/api/jobs?limit=3')
      const next = /<([^>]+)>; rel="next"/.exec(String(page.headers.link))?.[1] ?? ''
      assert.deepEqual([...idsOf(page), ...idsOf(await get(next))], ids.toReversed())
    })

    it('403 without the admin scope, 400 for an unknown status', async () => {
      for (const url of ['/api/jobs', '/api/jobs/job_0', '/api/schedules']) {
        assert.equal((await service.send({ url })).statusCode, 403, url)
      }
      assert.equal((await get('/api/jobs?status=done')).statusCode, 400)
    })

    it('200 and an audit entry for retrying a failed job; a repeat is replayed with the same Idempotency-Key, 409 without it', async () => {
      const id = await add('failed')
      const headers = { 'idempotency-key': `"retry-${id}"` }
      const answer = await post(`/api/jobs/${id}/retry`, headers)
      assert.deepEqual([answer.statusCode, answer.json().status], [200, 'waiting'])
      const again = await post(`/api/jobs/${id}/retry`, headers)
      assert.deepEqual([again.headers['idempotent-replayed'], again.body], ['true', answer.body])
      const refused = await post(`/api/jobs/${id}/retry`)
      assert.deepEqual([refused.statusCode, refused.json().errorCode], [409, 'STATE_CONFLICT'])
      const entries = await service.db.read.selectFrom('auditEntries').selectAll().where('target', '=', id).execute()
      assert.deepEqual(
        entries.map(({ event, details }) => [event, details]),
        [['job.retried', '{"job":"remind"}']],
      )
    })

    it('200 for cancelling a waiting job; a repeat is replayed with the same Idempotency-Key, 409 without it', async () => {
      const id = await add('waiting')
      const headers = { 'idempotency-key': `"cancel-${id}"` }
      const answer = await post(`/api/jobs/${id}/cancel`, headers)
      assert.deepEqual([answer.statusCode, answer.json().status], [200, 'cancelled'])
      assert.equal((await post(`/api/jobs/${id}/cancel`, headers)).headers['idempotent-replayed'], 'true')
      const refused = await post(`/api/jobs/${id}/cancel`)
      assert.deepEqual([refused.statusCode, refused.json().errorCode], [409, 'STATE_CONFLICT'])
      assert.equal((await post('/api/jobs/job_0/cancel')).statusCode, 404)
    })

    it('200 with the schedules and, once stored, their next times', async () => {
      assert.deepEqual((await get('/api/schedules')).json(), [chase])
      const nextAt = '2026-11-24T07:00:00.000Z'
      const timing = '0 8 * * 1-5 Europe/Berlin'
      await service.db.write((tx) => tx.insertInto('jobSchedules').values({ name: 'chase', timing, nextAt }).execute())
      assert.deepEqual((await get('/api/schedules')).json(), [{ ...chase, nextAt }])
    })
  })
})
