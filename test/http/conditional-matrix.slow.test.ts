import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { appOn, type TestApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'
import { additionConditions, changedAt, conditions, downloadConditions, weakConditions } from './conditions.ts'

type Answer = Awaited<ReturnType<TestApp['send']>>
type Headers = Record<string, string>
type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

const scopes = 'admin reports:read reports:write webhooks:read webhooks:write products:write books:write users:read'
const taskId = `tsk_${'a'.repeat(22)}`
const webhookId = `whk_${'a'.repeat(22)}`
const at = { revision: 3, createdAt: changedAt, updatedAt: changedAt }
const owner = { ownerClient: 'cli_other', ownerSubject: 'cli_other' }
const result = '0123456789abcde'

forEachEngine((engine) => {
  const service = appOn(engine)
  const send = (method: Method, url: string, headers: Headers = {}, payload?: object) =>
    service.send({ method, url, headers, scopes, ...(payload && { payload }) })

  /**
   * Returns the conditions to test reads with. The same code evaluates them on both engines, so PostgreSQL gets only
   * every sixth one.
   */
  const ofReads = <One>(all: readonly One[]) =>
    engine.name === 'sqlite' ? all : all.filter((_one, index) => index % 6 === 0)

  /** Creates a product with the revision and modification time that the expected outcomes assume. */
  const product = async () => {
    const row = { name: 'Pen', nameKey: 'pen', price: 1, ...at }
    const made = service.db.write((tx) => tx.insertInto('products').values(row).returning('id').executeTakeFirst())
    return (await made)?.id as number
  }
  const stored = (id: number) =>
    service.db.read.selectFrom('products').selectAll().where('id', '=', id).executeTakeFirst()

  before(async () => {
    const writer = await service.results.create('result')
    await writer.write(result)
    const { sha256, sizeBytes } = await writer.finish()
    const task = { id: taskId, ...owner, reportType: 'products', format: 'csv', versionPrefix: '', ...at }
    const done = { status: 'completed' as const, progress: 100, attempts: 1, sizeBytes, sha256, resultKey: 'result' }
    const expiresAt = '2036-01-01T00:00:00.000Z'
    const hook = { id: webhookId, ...owner, event: '*', callbackUrl: 'https://a.test', payloadStyle: 'plain' as const }
    await service.db.write(async (tx) => {
      await tx
        .insertInto('tasks')
        .values({ ...task, ...done, expiresAt })
        .execute()
      const sealed = { status: 'active' as const, secretSealed: 'x', ...at }
      await tx
        .insertInto('webhooks')
        .values({ ...hook, ...sealed })
        .execute()
    })
  })

  /**
   * Asserts RFC 9110 §15.4.5: a 304 has the ETag and the caching headers of the 200, but no Last-Modified and no
   * headers that describe content.
   */
  const isBare = (answer: Answer, whole: Answer) => {
    assert.equal(answer.body, '')
    for (const name of ['etag', 'cache-control', 'expires', 'vary', 'content-location']) {
      assert.equal(answer.headers[name], whole.headers[name], name)
    }
    assert.ok(answer.headers.date)
    const described = Object.keys(answer.headers).filter((name) => /^(content-|last-modified|transfer-)/.test(name))
    assert.deepEqual(described, [])
  }
  /** Asserts RFC 9110 §9.3.2: a response to HEAD has the header fields of the response to GET, but no content. */
  const isHead = (head: Answer, get: Answer) => {
    const perAnswer = { 'x-request-id': '', date: '' }
    assert.equal(head.statusCode, get.statusCode)
    assert.equal(head.body, '')
    // An error body contains the request id and a timestamp, so it differs between requests.
    const errorLength = get.statusCode >= 400 ? { 'content-length': '' } : {}
    assert.deepEqual(
      { ...head.headers, ...perAnswer, ...errorLength },
      { ...get.headers, ...perAnswer, ...errorLength },
    )
  }
  const isOutdated = (answer: Answer, hasBody = true) => {
    assert.equal(answer.statusCode, 412)
    if (hasBody) assert.equal(answer.json().errorCode, 'PRECONDITION_FAILED')
    assert.equal(answer.headers['cache-control'], 'no-store')
    for (const name of ['etag', 'last-modified', 'expires']) assert.equal(answer.headers[name], undefined, name)
  }

  const singles: [name: string, url: () => string | Promise<string>][] = [
    ['/products/{id}', async () => `/products/${await product()}`],
    ['/api/reports/{id}', () => `/api/reports/${taskId}`],
    ['/api/reports/{id}/status', () => `/v1/api/reports/${taskId}/status`],
    ['/api/webhooks/{id}', () => `/api/webhooks/${webhookId}`],
  ]
  for (const [name, urlOf] of singles) {
    describe(`GET and HEAD ${name} (RFC 9110 §13)`, () => {
      let url: string
      let whole: Answer
      before(async () => {
        url = await urlOf()
        whole = await send('GET', url)
        assert.deepEqual([whole.statusCode, whole.headers.etag], [200, '"3"'], whole.body)
        assert.equal(whole.headers['last-modified'], 'Sun, 01 Mar 2026 12:00:00 GMT')
      })
      for (const { note, headers, read } of ofReads(conditions)) {
        it(`${read} for ${note}`, async () => {
          const [get, head] = [await send('GET', url, headers), await send('HEAD', url, headers)]
          assert.equal(get.statusCode, read, get.body)
          if (read === 200) assert.deepEqual([get.body, get.headers.etag], [whole.body, '"3"'])
          if (read === 304) isBare(get, whole)
          if (read === 412) isOutdated(get)
          isHead(head, get)
        })
      }
    })
  }

  const bodies = { PUT: { name: 'Pencil', price: 2 }, PATCH: { name: 'Pencil' }, DELETE: undefined } as const
  for (const method of ['PUT', 'PATCH', 'DELETE'] as const) {
    describe(`${method} /products/{id} (RFC 9110 §13, T-RACE-01)`, () => {
      for (const { note, headers, write } of conditions) {
        const success = method === 'DELETE' ? 204 : 200
        it(`${write === 'done' ? success : write} for ${note}`, async () => {
          const id = await product()
          const before = await stored(id)
          const answer = await send(method, `/products/${id}`, headers, bodies[method])
          if (write === 412) {
            isOutdated(answer)
            assert.deepEqual(await stored(id), before)
          } else {
            assert.equal(answer.statusCode, success, answer.body)
            assert.equal(answer.headers.etag, method === 'DELETE' ? undefined : '"4"')
            assert.equal((await stored(id))?.revision, method === 'DELETE' ? undefined : 4)
          }
        })
      }
    })
  }

  describe('requests that would fail even without a precondition (RFC 9110 §13.2.1)', () => {
    const payload = bodies.PUT
    for (const method of ['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE'] as const) {
      it(`404 for ${method} with an unknown id, regardless of the precondition`, async () => {
        for (const { note, headers } of conditions) {
          const answer = await send(method, '/products/2147483647', headers, bodies[method as 'PUT'])
          assert.equal(answer.statusCode, 404, note)
        }
      })
    }
    it('400, 401, 403, 405, 415 or 422 rather than 412', async () => {
      const id = await product()
      const url = `/products/${id}`
      const headers = { 'if-match': '"2"', 'if-none-match': '*' }
      const status = async (request: Parameters<TestApp['send']>[0]) =>
        (await service.send({ url, headers, payload, scopes, ...request })).statusCode
      assert.equal(await status({ method: 'PUT', scopes: null }), 401)
      assert.equal(await status({ method: 'GET', token: 'expired' }), 401)
      assert.equal(await status({ method: 'PUT', scopes: 'books:write' }), 403)
      assert.equal(await status({ method: 'POST' }), 405)
      assert.equal(await status({ method: 'PUT', headers: { ...headers, 'content-type': 'text/plain' } }), 415)
      assert.equal(await status({ method: 'PUT', payload: {} }), 400)
      assert.equal(await status({ method: 'GET', url: '/products/x' }), 400)
      assert.equal(await status({ method: 'GET', url: `${url}?fields=a&fields=b` }), 400)
      assert.equal(await status({ method: 'PUT', payload: { ...payload, price: -1 } }), 422)
      assert.equal(await status({ method: 'PATCH', payload: { price: -1 } }), 422)
      assert.equal(await status({ method: 'PUT' }), 412)
    })
  })

  const weak = ['/products?limit=3', '/books', '/products?fields=id', '/products/1?fields=name', '/api/reports']
  for (const url of [...weak, '/api/webhooks', '/api/report-types', '/api/event-types']) {
    describe(`GET and HEAD ${url} (weak tag, no Last-Modified)`, () => {
      for (const [note, headers, status] of ofReads(weakConditions)) {
        it(`${status} for ${note}`, async () => {
          if (url.startsWith('/products')) await product()
          const whole = await send('GET', url)
          const tag = /^W\/("[^"]+")$/.exec(String(whole.headers.etag))?.[1] as string
          const filled = Object.entries(headers).map(([name, value]) => [name, value.replace('{tag}', tag)])
          const sent = Object.fromEntries(filled)
          const [get, head] = [await send('GET', url, sent), await send('HEAD', url, sent)]
          assert.equal(get.statusCode, status, get.body)
          if (status === 200) assert.equal(get.body, whole.body)
          if (status === 304) isBare(get, whole)
          if (status === 412) isOutdated(get)
          isHead(head, get)
        })
      }
    })
  }

  describe('POST to a collection', () => {
    const targets: [url: string, body: () => object, success: number][] = [
      ['/products', () => bodies.PUT, 201],
      ['/books', () => ({ title: 'Emma', author: 'Jane Austen' }), 201],
      ['/api/reports', () => ({ reportType: 'products', format: 'csv' }), 202],
      ['/api/webhooks', () => ({ event: '*', callbackUrl: `http://127.0.0.1/${Math.random()}` }), 201],
    ]
    for (const [url, body, success] of targets) {
      for (const [note, headers, status] of additionConditions) {
        it(`${status === 412 ? 412 : success} from ${url} for ${note}`, async () => {
          const answer = await send('POST', url, headers, body())
          assert.equal(answer.statusCode, status === 412 ? 412 : success, answer.body)
          if (status === 412) isOutdated(answer)
        })
      }
    }
    it('400 or 422 rather than 412 for an invalid body', async () => {
      const headers = { 'if-none-match': '*' }
      assert.equal((await send('POST', '/products', headers, {})).statusCode, 400)
      assert.equal((await send('POST', '/products', headers, { name: '', price: 1 })).statusCode, 422)
      assert.equal((await send('POST', '/api/reports', headers, { reportType: 'x', format: 'y' })).statusCode, 422)
    })
  })

  describe('GET and HEAD /api/reports/{id}/download', () => {
    const url = `/api/reports/${taskId}/download`
    for (const [note, headers, status, headStatus] of downloadConditions) {
      it(`${status} for GET and ${headStatus} for HEAD: ${note}`, async () => {
        const whole = await send('GET', url)
        assert.deepEqual([whole.statusCode, whole.body], [200, result])
        const tag = String(whole.headers.etag)
        const sent = Object.fromEntries(
          Object.entries(headers).map(([name, value]) => [name, value.replace('{tag}', tag)]),
        )
        const [get, head] = [await send('GET', url, sent), await send('HEAD', url, sent)]
        assert.deepEqual([get.statusCode, head.statusCode], [status, headStatus], get.body)
        if (status === 200) assert.equal(get.body, result)
        if (status === 206) assert.deepEqual([get.body, get.headers['content-range']], ['01', 'bytes 0-1/15'])
        if (status === 304) isBare(get, whole)
        if (status === 412) isOutdated(get)
        if (status === headStatus) isHead(head, get)
        else isHead(head, whole)
      })
    }
    it('409 rather than 412 or 416 while there is no result', async () => {
      const { taskId: id } = (await send('POST', '/api/reports', {}, { reportType: 'books', format: 'csv' })).json()
      const answer = await send('GET', `/api/reports/${id}/download`, { 'if-match': '"x"', range: 'bytes=99-' })
      assert.deepEqual([answer.statusCode, answer.json().errorCode], [409, 'TASK_NOT_COMPLETED'])
    })
  })

  describe('POST actions on a resource, with preconditions', () => {
    const unfinished = { ...at, reportType: 'products', format: 'csv', versionPrefix: '', status: 'pending' as const }
    const task = { id: `tsk_${'c'.repeat(22)}`, ...owner, ...unfinished, progress: 0, attempts: 0 }
    const targets: [url: string, success: number, body?: object][] = [
      [`/api/reports/${task.id}/cancel`, 200],
      [`/api/webhooks/${webhookId}/test`, 202],
      [`/api/webhooks/${webhookId}/replay`, 202, { since: '2026-01-01T00:00:00Z' }],
    ]
    for (const [url, success, body] of targets) {
      for (const { note, headers, write } of conditions.filter((_, index) => index % 4 === 0)) {
        it(`${write === 'done' ? success : write} from ${url} for ${note}`, async () => {
          await service.db.write(async (tx) => {
            await tx.deleteFrom('tasks').where('id', '=', task.id).execute()
            await tx.insertInto('tasks').values(task).execute()
          })
          const answer = await send('POST', url, headers, body)
          assert.equal(answer.statusCode, write === 'done' ? success : 412, answer.body)
          if (write === 412) isOutdated(answer)
        })
      }
    }
    it('409 rather than 412 for a task that has already ended', async () => {
      const answer = await send('POST', `/api/reports/${taskId}/cancel`, { 'if-match': '"2"' })
      assert.deepEqual([answer.statusCode, answer.json().errorCode], [409, 'TASK_ALREADY_FINISHED'])
    })
    it('412 for a redelivery with an outdated webhook tag, and for a secret rotation with any tag', async () => {
      const headers = { 'if-match': '"2"' }
      isOutdated(await send('POST', `/api/webhooks/${webhookId}/deliveries/dlv_x/redeliver`, headers))
      isOutdated(await send('POST', '/api/webhooks/secret/rotate', headers))
    })
  })

  describe('DELETE /api/webhooks/{id} (RFC 9110 §13)', () => {
    for (const { note, headers, write } of conditions.filter((_, at) => at % 4 === 0)) {
      it(`${write === 'done' ? 204 : write} for ${note}`, async () => {
        const row = { id: `whk_${'b'.repeat(22)}`, ...owner, event: 'report.*', callbackUrl: 'https://b.test' }
        const rest = { payloadStyle: 'plain' as const, status: 'active' as const, secretSealed: 'x', ...at }
        await service.db.write(async (tx) => {
          await tx.deleteFrom('webhooks').where('id', '=', row.id).execute()
          await tx
            .insertInto('webhooks')
            .values({ ...row, ...rest })
            .execute()
        })
        const answer = await send('DELETE', `/api/webhooks/${row.id}`, headers)
        assert.equal(answer.statusCode, write === 'done' ? 204 : 412, answer.body)
        assert.equal((await send('GET', `/api/webhooks/${row.id}`)).statusCode, write === 'done' ? 404 : 200)
      })
    }
  })
})
