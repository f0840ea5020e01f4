import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import type { LightMyRequestResponse as Response } from 'fastify'
import type { Database } from '../../src/storage/database.ts'
import { everyScope, type TestApp, testApp, token } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

forEachEngine((engine) => {
  let db: Database
  let test: TestApp
  let client: string
  let clients = 0

  before(async () => {
    db = await engine.database()
    test = await testApp(db)
  })
  after(async () => {
    await test.app.close()
    await db.close()
    assert.deepEqual(test.faults, [])
  })
  beforeEach(() => {
    client = `cli_${++clients}`
  })

  type Request = { headers?: Record<string, string>; payload?: object; scopes?: string; as?: string }
  const send = (method: string, url: string, { scopes = everyScope, as = client, ...request }: Request = {}) =>
    test.send({ method: method as 'GET', url, token: token(scopes, as), ...request })
  const requestReport = async (
    payload: object = { reportType: 'products', format: 'csv' },
    as = client,
  ): Promise<string> => {
    const response = await send('POST', '/api/reports', { payload, as })
    assert.equal(response.statusCode, 202, response.body)
    return response.json().taskId
  }
  const set = (id: string, values: object) =>
    db.write((tx) => tx.updateTable('tasks').set(values).where('id', '=', id).execute())
  const completed = async () => {
    const id = await requestReport()
    await set(id, { status: 'completed', progress: 100, completedAt: '2026-03-01T12:00:01.000Z', revision: 5 })
    return id
  }
  const eventsOf = async (id: string) =>
    (await db.read.selectFrom('events').selectAll().execute()).filter(({ body }) => body.includes(id))
  const refused = (response: Response) => [response.statusCode, response.json().errorCode]

  describe('GET /api/reports?owner=all', () => {
    const admin = `${everyScope} admin`

    it('403 without the admin scope; 400 for an `owner` other than `all`', async () => {
      assert.deepEqual(refused(await send('GET', '/api/reports?owner=all')), [403, 'ACCESS_DENIED'])
      assert.deepEqual(refused(await send('GET', '/api/reports?owner=cli_1')), [400, 'INVALID_INPUT'])
    })

    it('200 with the tasks of every owner, newest first, in pages', async () => {
      const ids: string[] = []
      for (let n = 0; n < 3; n += 1) {
        test.clock.now += 1_000
        ids.unshift(await requestReport(undefined, `${client}_${n}`))
      }
      const first = await send('GET', '/api/reports?owner=all&limit=2', { scopes: admin, as: 'cli_root' })
      const next = /<([^>]+)>; rel="next"/.exec(String(first.headers.link))?.[1] ?? ''
      const second = await send('GET', next, { scopes: admin, as: 'cli_root' })
      const tasks = [...first.json(), ...second.json()].slice(0, 3)
      assert.deepEqual(
        tasks.map(({ taskId, ownerClient, ownerSubject }) => [taskId, ownerClient, ownerSubject]),
        ids.map((id, n) => [id, `${client}_${2 - n}`, `${client}_${2 - n}`]),
      )
      const own = (await send('GET', '/api/reports', { as: `${client}_0` })).json()
      assert.deepEqual([own.length, own[0].ownerClient], [1, undefined])
    })

    it('200 with only the tasks that match the filters', async () => {
      const [id, other] = [await requestReport(), await requestReport()]
      await set(other, { status: 'failed', errorCode: 'TASK_TIMED_OUT', errorMessage: 'Too slow' })
      const idsOf = async (query: string) => {
        const response = await send('GET', `/api/reports?owner=all&limit=200${query}`, { scopes: admin })
        return response.json().map(({ taskId }: { taskId: string }) => taskId)
      }
      const [failed, pending] = [await idsOf('&status=failed'), await idsOf('&status=pending&reportType=products')]
      assert.deepEqual([failed.includes(other), failed.includes(id)], [true, false])
      assert.deepEqual([pending.includes(other), pending.includes(id)], [false, true])
    })
  })

  describe('POST /api/reports/{taskId}/cancel', () => {
    for (const status of ['pending', 'in_progress'] as const) {
      it(`200 for a task with status ${status}: the status changes to failed, and one event is recorded`, async () => {
        const id = await requestReport()
        await set(id, { status })
        const response = await send('POST', `/api/reports/${id}/cancel`)
        assert.equal(response.statusCode, 200)
        const task = response.json()
        assert.deepEqual(
          [task.status, task.error],
          ['failed', { errorCode: 'TASK_CANCELLED', message: 'The task was cancelled' }],
        )
        assert.deepEqual(
          (await eventsOf(id)).map(({ type }) => type),
          ['report.failed'],
        )
        assert.deepEqual((await send('GET', `/api/reports/${id}`)).json(), task)
      })
    }

    it('409 if the task has ended, without changing anything', async () => {
      const id = await completed()
      assert.deepEqual(refused(await send('POST', `/api/reports/${id}/cancel`)), [409, 'TASK_ALREADY_FINISHED'])
      assert.equal((await send('GET', `/api/reports/${id}`)).json().status, 'completed')
      assert.deepEqual(await eventsOf(id), [])
    })

    it('200 for exactly one of ten concurrent requests, 409 for the others (T-RACE-04)', async () => {
      const id = await requestReport()
      const responses = await Promise.all(Array.from({ length: 10 }, () => send('POST', `/api/reports/${id}/cancel`)))
      const codes = responses.map(({ statusCode }) => statusCode).toSorted()
      assert.deepEqual(codes, [200, ...Array(9).fill(409)])
      assert.equal((await eventsOf(id)).length, 1)
    })
  })

  describe('POST /api/reports/{taskId}/retry', () => {
    it('202 with a new task of the same type that refers to the old task', async () => {
      const parameters = { filter: { minPrice: 1 }, fields: ['name'], sort: ['-price'] }
      const id = await requestReport({
        reportType: 'products',
        format: 'json',
        parameters,
        webhookUrl: 'http://127.0.0.1:9/x',
      })
      await send('POST', `/api/reports/${id}/cancel`)
      const response = await send('POST', `/v1/api/reports/${id}/retry`)
      assert.equal(response.statusCode, 202)
      const task = response.json()
      assert.notEqual(task.taskId, id)
      assert.equal(response.headers.location, `/v1/api/reports/${task.taskId}/status`)
      assert.deepEqual(
        [task.status, task.retryOf, task.reportType, task.format, task.parameters],
        ['pending', id, 'products', 'json', parameters],
      )
      const row = await db.read.selectFrom('tasks').selectAll().where('id', '=', task.taskId).executeTakeFirstOrThrow()
      assert.equal(row.webhookUrl, 'http://127.0.0.1:9/x')
    })

    it('409 while the task has not ended', async () => {
      assert.deepEqual(refused(await send('POST', `/api/reports/${await requestReport()}/retry`)), [
        409,
        'TASK_NOT_COMPLETED',
      ])
    })

    it("403 without the scope for the report's data, as for the original request", async () => {
      const id = await requestReport({ reportType: 'users', format: 'csv' })
      await send('POST', `/api/reports/${id}/cancel`)
      const response = await send('POST', `/api/reports/${id}/retry`, { scopes: 'reports:write reports:read' })
      assert.deepEqual(refused(response), [403, 'ACCESS_DENIED'])
    })
  })

  describe('DELETE /api/reports/{taskId}', () => {
    it('204, then 404 on every path', async () => {
      const id = await completed()
      const response = await send('DELETE', `/api/reports/${id}`)
      assert.deepEqual([response.statusCode, response.body], [204, ''])
      for (const part of ['', '/status', '/download', '/events']) {
        assert.equal((await send('GET', `/api/reports/${id}${part}`)).statusCode, 404, part)
      }
      for (const part of ['/cancel', '/retry']) {
        assert.equal((await send('POST', `/api/reports/${id}${part}`)).statusCode, 404, part)
      }
      assert.equal((await send('DELETE', `/api/reports/${id}`)).statusCode, 404)
    })

    it('204 for an unfinished task: it is cancelled first, and one event is recorded', async () => {
      const id = await requestReport()
      assert.equal((await send('DELETE', `/api/reports/${id}`)).statusCode, 204)
      assert.deepEqual(
        (await eventsOf(id)).map(({ type }) => type),
        ['report.failed'],
      )
    })

    it('412 if If-Match lists only other revisions; the task remains', async () => {
      const id = await completed()
      const stale = await send('DELETE', `/api/reports/${id}`, { headers: { 'if-match': '"4"' } })
      assert.deepEqual(refused(stale), [412, 'PRECONDITION_FAILED'])
      const { headers } = await send('GET', `/api/reports/${id}`)
      const current = { 'if-match': String(headers.etag) }
      assert.equal((await send('DELETE', `/api/reports/${id}`, { headers: current })).statusCode, 204)
    })

    it('404 for another client, also on the cancel, retry and events paths; the task remains (T-API-01)', async () => {
      const id = await completed()
      for (const [method, part] of [
        ['DELETE', ''],
        ['POST', '/cancel'],
        ['POST', '/retry'],
        ['GET', '/events'],
      ] as const) {
        assert.equal((await send(method, `/api/reports/${id}${part}`, { as: 'cli_other' })).statusCode, 404, part)
      }
      assert.equal((await send('GET', `/api/reports/${id}`)).statusCode, 200)
    })

    it('403 without reports:write, also on the cancel and retry paths', async () => {
      const id = await completed()
      for (const [method, part] of [
        ['DELETE', ''],
        ['POST', '/cancel'],
        ['POST', '/retry'],
      ] as const) {
        const response = await send(method, `/api/reports/${id}${part}`, { scopes: 'reports:read' })
        assert.deepEqual(refused(response), [403, 'ACCESS_DENIED'], part)
      }
    })
  })

  describe('GET /api/reports', () => {
    const idsOf = (response: Response) => response.json().map(({ taskId }: { taskId: string }) => taskId)
    const linkOf = (response: Response, rel: string) =>
      new RegExp(`<([^>]+)>; rel="${rel}"`).exec(String(response.headers.link))?.[1]

    it('200 with pages that the Link header connects in both directions, even while tasks are added', async () => {
      const ids: string[] = []
      for (let n = 0; n < 7; n++) {
        // Some tasks have the same timestamp, so their ids determine the order.
        if (n % 2 === 0) test.clock.now += 1_000
        ids.unshift(await requestReport())
      }
      const all = idsOf(await send('GET', '/api/reports'))
      assert.deepEqual(all.toSorted(), ids.toSorted())
      const first = await send('GET', '/v1/api/reports?limit=3')
      assert.deepEqual(idsOf(first), all.slice(0, 3))
      assert.equal(linkOf(first, 'prev'), undefined)
      await requestReport()
      const second = await send('GET', linkOf(first, 'next') as string)
      assert.deepEqual(idsOf(second), all.slice(3, 6))
      const third = await send('GET', linkOf(second, 'next') as string)
      assert.deepEqual(idsOf(third), all.slice(6))
      assert.equal(linkOf(third, 'next'), undefined)
      const back = await send('GET', linkOf(third, 'prev') as string)
      assert.deepEqual(idsOf(back), all.slice(3, 6))
      assert.match(linkOf(first, 'next') as string, /^\/v1\/api\/reports\?limit=3&cursor=/)
    })

    it('200 with only the tasks that match the filters', async () => {
      const csv = await requestReport()
      const json = await requestReport({ reportType: 'books', format: 'json' })
      await send('POST', `/api/reports/${csv}/cancel`)
      const listed = async (query: string) => idsOf(await send('GET', `/api/reports?${query}`))
      assert.deepEqual(await listed('status=failed'), [csv])
      assert.deepEqual(await listed('status=pending'), [json])
      assert.deepEqual(await listed('reportType=books'), [json])
      assert.deepEqual(await listed('format=csv'), [csv])
      assert.deepEqual(await listed('format=csv&status=pending'), [])
      assert.deepEqual((await send('GET', '/api/reports?fields=status&status=failed')).json(), [{ status: 'failed' }])
    })

    it('400 for an unknown status, and for a cursor that was altered or belongs to a different list or caller', async () => {
      for (let n = 0; n < 3; n++) await requestReport()
      const next = linkOf(await send('GET', '/api/reports?limit=1'), 'next') as string
      for (const url of ['/api/reports?status=done', '/api/reports?cursor=x', `${next}&status=failed`]) {
        assert.deepEqual(refused(await send('GET', url)), [400, 'INVALID_INPUT'], url)
      }
      const altered = Buffer.from(JSON.stringify([...JSON.parse(cursorOf(next)).slice(0, 2), 1, 2])).toString(
        'base64url',
      )
      assert.equal((await send('GET', `/api/reports?limit=1&cursor=${altered}`)).statusCode, 400)
      assert.equal((await send('GET', next, { as: 'cli_other' })).statusCode, 400)
    })

    const cursorOf = (url: string) =>
      Buffer.from(new URL(url, 'https://x').searchParams.get('cursor') ?? '', 'base64url').toString()
  })

  describe('a client with many reports', () => {
    it('429 with Retry-After above a hundred waiting tasks, but not for other clients (T-API-09)', async () => {
      const payload = { reportType: 'products', format: 'csv' }
      for (let n = 0; n < 100; n++) await requestReport()
      const response = await send('POST', '/api/reports', { payload })
      assert.equal(response.statusCode, 429)
      assert.ok(Number(response.headers['retry-after']) >= 1)
      assert.deepEqual(response.json(), {
        error: '100 of your reports are already waiting, the maximum: try again later',
      })
      assert.match(String(response.headers['content-type']), /^application\/json/)
      assert.equal((await send('GET', '/api/reports?limit=200')).json().length, 100)
      await requestReport(payload, 'cli_another')
      const [first] = (await send('GET', '/api/reports?limit=1')).json()
      await send('POST', `/api/reports/${first.taskId}/cancel`)
      await requestReport()
    })
  })
})
