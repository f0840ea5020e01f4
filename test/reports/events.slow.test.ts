import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { request } from 'undici'
import type { Database } from '../../src/storage/database.ts'
import { everyScope, type TestApp, testApp, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

interface SentEvent {
  id: string
  event: string
  data: { status: string; progress: number; revision?: number; resultUrl?: string; error?: { errorCode: string } }
}

forEachEngine((engine) => {
  describe('GET /api/reports/{taskId}/events', () => {
    let db: Database
    let test: TestApp
    let origin: string

    before(async () => {
      db = await engine.database()
      test = await testApp(db, { prefixes: [''] })
      await test.app.listen({ host: '127.0.0.1', port: 0 })
      origin = `http://127.0.0.1:${(test.app.server.address() as AddressInfo).port}`
    })
    after(async () => {
      await test.app.close()
      await db.close()
      assert.deepEqual(test.faults, [])
    })

    const requestReport = async (): Promise<string> =>
      (await test.send({ method: 'POST', url: '/api/reports', payload: { reportType: 'books', format: 'csv' } })).json()
        .taskId
    const set = (id: string, values: object) =>
      db.write((tx) =>
        tx
          .updateTable('tasks')
          .set((row) => ({ ...values, revision: row('revision', '+', 1) }))
          .where('id', '=', id)
          .execute(),
      )
    const finished = { status: 'completed', progress: 100, completedAt: '2026-03-01T12:00:01.000Z' }

    /** Opens a stream as an EventSource would. */
    async function listen(id: string, headers: Record<string, string> = {}) {
      const gone = new AbortController()
      const response = await request(`${origin}/api/reports/${id}/events`, {
        // An idle connection would delay closing the server.
        reset: true,
        headers: { 'x-forwarded-proto': 'https', authorization: `Bearer ${token(everyScope)}`, ...headers },
        signal: gone.signal,
      })
      const blocks = (async function* () {
        let text = ''
        for await (const chunk of response.body) {
          text += chunk
          for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
            yield text.slice(0, end)
            text = text.slice(end + 2)
          }
        }
      })()
      const next = async (): Promise<SentEvent | undefined> => {
        for (;;) {
          const { value, done } = await blocks.next()
          if (done) return undefined
          const fields = Object.fromEntries(value.split('\n').map((line) => line.split(/: (.*)/s)))
          if (fields.data) return { id: fields.id, event: fields.event, data: JSON.parse(fields.data) }
        }
      }
      return { response, next, leave: () => gone.abort() }
    }

    it('200 with the task at once, then with its progress and its outcome, after which the stream ends', async () => {
      const id = await requestReport()
      const { response, next } = await listen(id)
      assert.equal(response.statusCode, 200)
      assert.equal(response.headers['content-type'], 'text/event-stream')
      assert.equal(response.headers['cache-control'], 'no-store')
      const first = await next()
      assert.deepEqual([first?.event, first?.id, first?.data.status], ['progress', '1', 'pending'])
      assert.equal(first?.data.revision, undefined)
      await set(id, { status: 'in_progress', progress: 40 })
      const second = await next()
      assert.deepEqual([second?.event, second?.id, second?.data.progress], ['progress', '2', 40])
      await set(id, finished)
      const last = await next()
      assert.deepEqual([last?.event, last?.id, last?.data.status], ['completed', '3', 'completed'])
      assert.equal(last?.data.resultUrl, `/api/reports/${id}/download`)
      assert.equal(await next(), undefined)
    })

    it('200 with only the events after Last-Event-ID; an invalid Last-Event-ID is ignored', async () => {
      const id = await requestReport()
      const { next } = await listen(id, { 'last-event-id': '1' })
      await set(id, { status: 'in_progress', progress: 7 })
      const first = await next()
      assert.deepEqual([first?.id, first?.data.progress], ['2', 7])
      const other = await listen(id, { 'last-event-id': 'no number' })
      assert.equal((await other.next())?.id, '2')
      await set(id, { status: 'failed', errorCode: 'TASK_CANCELLED', errorMessage: 'The task was cancelled' })
      assert.deepEqual((await next())?.event, 'failed')
      assert.deepEqual((await other.next())?.data.error?.errorCode, 'TASK_CANCELLED')
    })

    it('204 for a client that has received the last event, to stop it from reconnecting', async () => {
      const id = await requestReport()
      await set(id, finished)
      const again = await listen(id, { 'last-event-id': '2' })
      assert.equal(again.response.statusCode, 204)
      assert.equal(await again.response.body.text(), '')
      const late = await listen(id, { 'last-event-id': '1' })
      assert.equal((await late.next())?.event, 'completed')
    })

    it('200 for HEAD, with the headers and without a body', async () => {
      const id = await requestReport()
      const response = await test.send({ method: 'HEAD', url: `/api/reports/${id}/events` })
      assert.deepEqual(
        [response.statusCode, response.headers['content-type'], response.body],
        [200, 'text/event-stream', ''],
      )
    })

    it('ends the stream when the task is deleted', async () => {
      const id = await requestReport()
      const { next } = await listen(id)
      await next()
      await db.write((tx) => tx.deleteFrom('tasks').where('id', '=', id).execute())
      assert.equal(await next(), undefined)
    })

    it('401 without a token, 403 without the scope, 404 for another owner’s task', async () => {
      const id = await requestReport()
      const status = async (request: object) =>
        (await test.send({ method: 'GET', url: `/api/reports/${id}/events`, ...request })).statusCode
      assert.equal(await status({ scopes: null }), 401)
      assert.equal(await status({ scopes: 'reports:write' }), 403)
      assert.equal(await status({ token: token(everyScope, 'cli_other') }), 404)
    })

    it('ends the streams of all tasks when the service stops, even after a client has disconnected', async () => {
      const [id, another] = [await requestReport(), await requestReport()]
      const leaving = await listen(id)
      await leaving.next()
      leaving.leave()
      await assert.rejects(async () => leaving.next())
      const staying = [await listen(id), await listen(id), await listen(another)]
      for (const { next } of staying) assert.equal((await next())?.data.status, 'pending')
      const closed = once(test.app.server, 'close')
      await test.app.close()
      await closed
      for (const { next } of staying) assert.equal(await next(), undefined)
    })
  })
})
