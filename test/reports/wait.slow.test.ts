import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { after, before, describe, it } from 'node:test'
import type { LightMyRequestResponse as Response } from 'fastify'
import { pollEveryMs } from '../../src/reports/wait-for-change.ts'
import type { Database } from '../../src/storage/database.ts'
import { everyScope, type TestApp, testApp, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { drivenTimers, until } from '../support/timers.ts'

forEachEngine((engine) => {
  describe('GET /api/reports/{taskId}/status with Prefer: wait', () => {
    let db: Database
    let service: TestApp
    const timers = drivenTimers()
    before(async () => {
      db = await engine.database()
      service = await testApp(db, { prefixes: [''], later: timers.later })
    })
    after(async () => {
      const faults = [...service.faults]
      await service.app.close()
      await db.close()
      assert.deepEqual(faults, [])
    })

    /** Creates a task that no worker processes. */
    const created = async () => {
      const payload = { reportType: 'books', format: 'csv' }
      const response = await service.send({ method: 'POST', url: '/api/reports', payload })
      return { id: response.json().taskId as string, url: response.headers.location as string }
    }
    const change = (id: string, values: object) =>
      db.write((tx) =>
        tx
          .updateTable('tasks')
          .set((row) => ({ ...values, revision: row('revision', '+', 1) }))
          .where('id', '=', id)
          .execute(),
      )
    const get = (url: string, prefer?: string, headers: object = {}) =>
      service.send({ url, headers: { ...(prefer && { prefer }), ...headers } })
    const ended = {
      status: 'failed',
      completedAt: '2026-03-01T12:00:01.000Z',
      errorCode: 'INTERNAL_ERROR',
      errorMessage: 'no',
    }
    /** Lets one poll start and finish. */
    const runPoll = async () => {
      timers.pass(pollEveryMs)
      await until(() => timers.pending().includes(pollEveryMs))
    }
    const applied = ({ headers }: Response) => headers['preference-applied']

    it('200 once the task has ended; neither its start nor its progress ends the wait', async () => {
      const { id, url } = await created()
      const answering = get(url, 'wait=10')
      await until(() => timers.pending().length === 2)
      assert.deepEqual(timers.pending(), [pollEveryMs, 10_000])
      for (const values of [{ status: 'in_progress' }, { progress: 40 }]) {
        await change(id, values)
        await runPoll()
        assert.ok(
          timers.pending().some((ms) => ms > pollEveryMs),
          'the request still waits',
        )
      }
      await change(id, ended)
      timers.pass(pollEveryMs)
      const response = await answering
      assert.equal(response.statusCode, 200)
      assert.deepEqual([response.json().status, response.json().progress], ['failed', 40])
      assert.equal(response.headers.etag, '"4"')
      assert.equal(applied(response), 'wait=10')
      assert.deepEqual(timers.pending(), [])
    })

    it('200 after the next change with If-None-Match, on both the status path and the task path', async () => {
      const { id, url } = await created()
      for (const [path, values, revision] of [
        [url, { status: 'in_progress' }, 1],
        [url.replace('/status', ''), { progress: 40 }, 2],
      ] as const) {
        const answering = get(path, 'wait=10', { 'if-none-match': `"${revision}"` })
        await until(() => timers.pending().includes(10_000))
        await change(id, values)
        timers.pass(pollEveryMs)
        const response = await answering
        assert.deepEqual([response.statusCode, response.headers.etag], [200, `"${revision + 1}"`])
        assert.equal(applied(response), 'wait=10')
        await settled()
      }
    })

    it('200 with the unchanged task when the wait times out, after at most 30 seconds', async () => {
      for (const [prefer, seconds] of [
        ['wait=3', 3],
        ['wait=600', 30],
      ] as const) {
        const { url } = await created()
        const answering = get(url, prefer)
        await until(() => timers.pending().includes(seconds * 1_000))
        timers.pass(seconds * 1_000)
        const response = await answering
        assert.deepEqual([response.statusCode, response.json().status], [200, 'pending'])
        assert.equal(applied(response), `wait=${seconds}`)
        assert.ok(response.headers['retry-after'])
      }
      await settled()
    })

    /** Lets the current poll finish after all waiters have gone. */
    const settled = async () => {
      while (timers.pending().length > 0) {
        timers.pass(pollEveryMs)
        await until(() => timers.pending().every((ms) => ms === pollEveryMs))
      }
    }

    it('200 at once without a valid preference, for a finished task, or if If-None-Match is outdated', async () => {
      const { id, url } = await created()
      assert.equal(applied(await get(url)), undefined)
      assert.equal(applied(await get(url, 'wait=soon')), undefined)
      const missed = await get(url, 'wait=10', { 'if-none-match': '"7"' })
      assert.deepEqual([missed.statusCode, applied(missed)], [200, 'wait=10'])
      await change(id, ended)
      const finished = await get(url, 'wait=10')
      assert.deepEqual([finished.json().status, applied(finished)], ['failed', 'wait=10'])
      assert.deepEqual(timers.pending(), [])
    })

    it('304 if If-None-Match is still current when the wait times out, otherwise 200', async () => {
      const { id, url } = await created()
      const poll = get(url, 'wait=2', { 'if-none-match': '"1"' })
      await until(() => timers.pending().includes(2_000))
      timers.pass(2_000)
      assert.equal((await poll).statusCode, 304)
      await settled()
      const again = get(url, 'wait=2', { 'if-none-match': '"1"' })
      await until(() => timers.pending().includes(2_000))
      await change(id, { progress: 1 })
      timers.pass(pollEveryMs)
      assert.equal((await again).statusCode, 200)
    })

    it('404 at once for another owner’s task', async () => {
      const { url } = await created()
      const headers = { prefer: 'wait=10' }
      const response = await service.send({ url, headers, token: token(everyScope, 'cli_other') })
      assert.equal(response.statusCode, 404)
      assert.deepEqual(timers.pending(), [])
    })

    it('stops waiting when the client disconnects', async () => {
      const { url } = await created()
      const { app } = service
      await app.listen({ host: '127.0.0.1', port: 0 })
      const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1')
      await once(socket, 'connect')
      const lines = ['host: plinth.test', 'x-forwarded-proto: https', `authorization: Bearer ${token(everyScope)}`]
      socket.write(`GET ${url} HTTP/1.1\r\n${lines.join('\r\n')}\r\nprefer: wait=30\r\n\r\n`)
      await until(() => timers.pending().includes(30_000))
      socket.destroy()
      await until(() => !timers.pending().includes(30_000))
      await settled()
    })

    it('200 at once when the service stops', async () => {
      const stopping = await testApp(db, { prefixes: [''], later: timers.later })
      const { url } = await created()
      const response = stopping.send({ url, headers: { prefer: 'wait=30' } })
      await until(() => timers.pending().includes(30_000))
      const closed = stopping.app.close()
      assert.equal((await response).statusCode, 200)
      await closed
      await settled()
    })
  })
})
