import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type ProblemCode, problems } from '../../src/http/problems/problem.ts'
import type { Database } from '../../src/storage/database.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { forEachEngine } from '../support/engines.ts'

forEachEngine((engine) => {
  describe('the response to a request that causes an error', () => {
    let db: Database
    let service: TestApp
    let faulty: TestApp
    let demanding: TestApp
    before(async () => {
      db = await engine.database()
      service = await testApp(db, { prefixes: [''] })
      const verify = () => {
        throw new Error('select hunter2 from /srv/plinth')
      }
      faulty = await testApp(db, { prefixes: [''], verify })
      demanding = await testApp(db, { prefixes: [''], requireIfMatch: true })
      await service.send({ method: 'POST', url: '/users', payload: user })
      await service.send({ method: 'POST', url: '/products', payload: { name: 'Pen', price: 1 } })
    })
    after(async () => {
      for (const { app } of [service, faulty, demanding]) await app.close()
      await db.close()
    })

    const user = { name: 'Ada', email: 'ada@plinth.test' }
    const json = { 'content-type': 'application/json' }
    type Sent = Parameters<TestApp['send']>[0]
    const post = (url: string, payload: unknown, more: Sent = {}): Sent => ({
      method: 'POST',
      url,
      payload: typeof payload === 'string' ? payload : JSON.stringify(payload),
      headers: json,
      ...more,
    })

    /** Requests, keyed by the error code that they cause. The codes in the API contract come first. */
    const requests: Partial<Record<ProblemCode, Sent>> = {
      INVALID_INPUT: post('/users', '{'),
      MISSING_REQUIRED_FIELD: post('/users', { name: 'Ada' }),
      VALIDATION_ERROR: post('/users', { name: '', email: 'ada' }),
      AUTH_REQUIRED: { url: '/users', scopes: null },
      AUTH_TOKEN_EXPIRED: { url: '/users', token: 'expired' },
      ACCESS_DENIED: { url: '/users', scopes: 'books:write' },
      RESOURCE_NOT_FOUND: { url: '/users/99' },
      DUPLICATE_RESOURCE: post('/users', user),
      AUTH_TOKEN_INVALID: { url: '/users', token: 'x' },
      METHOD_NOT_ALLOWED: { method: 'DELETE', url: '/users' },
      NOT_ACCEPTABLE: { url: '/users', headers: { 'accept-encoding': 'identity;q=0' } },
      PRECONDITION_FAILED: { method: 'DELETE', url: '/products/1', headers: { 'if-match': '"9"' } },
      PAYLOAD_TOO_LARGE: post('/users', 'x'.repeat(1_048_577)),
      URI_TOO_LONG: { url: `/users?${'x'.repeat(8_192)}` },
      UNSUPPORTED_MEDIA_TYPE: post('/users', user, { headers: { 'content-type': 'text/plain' } }),
      CALLBACK_URL_BLOCKED: post('/api/webhooks', { event: '*', callbackUrl: 'https://10.0.0.1/' }),
    }

    const forms = { problem: 'application/problem+json, */*;q=0.1', code: 'application/json' }
    const check = async (code: ProblemCode, target: TestApp, sent: Sent) => {
      for (const [form, accept] of Object.entries(forms)) {
        const headers = { ...sent.headers, accept }
        const answer = await target.send({ ...sent, headers })
        const body = answer.json()
        assert.deepEqual([answer.statusCode, body.errorCode], [problems[code][0], code], answer.body)
        assert.equal(answer.headers['x-error-code'], code)
        assert.equal(answer.headers['x-request-id'], body.requestId)
        assert.equal(answer.headers['cache-control'], 'no-store')
        const type = form === 'problem' ? 'application/problem+json' : 'application/json'
        assert.equal(answer.headers['content-type'], `${type}; charset=utf-8`)
        assert.match(String(answer.headers.vary), /\bAccept\b/)
        assert.ok(body.timestamp)
        assert.doesNotMatch(answer.body, /hunter2|srv/)
        if (form === 'problem') assert.equal(body.title, problems[code][1])
        else assert.equal(body.path, String(sent.url).split('?')[0])
      }
    }
    for (const [code, sent] of Object.entries(requests) as [ProblemCode, Sent][]) {
      it(`${problems[code][0]} ${code} in both error formats`, () => check(code, service, sent))
    }
    it('500 INTERNAL_ERROR in both error formats, without the cause, which is logged', async () => {
      await check('INTERNAL_ERROR', faulty, { url: '/users' })
      assert.equal(faulty.faults.length, 2)
    })

    it('428 PRECONDITION_REQUIRED in both error formats, if the server requires preconditions', async () => {
      await check('PRECONDITION_REQUIRED', demanding, { method: 'DELETE', url: '/products/1' })
    })

    it('409 TASK_NOT_COMPLETED in both error formats', async () => {
      const task = await service.send(post('/api/reports', { reportType: 'books', format: 'csv' }))
      await check('TASK_NOT_COMPLETED', service, { url: `/api/reports/${task.json().taskId}/download` })
    })

    it('422 VALIDATION_ERROR listing all invalid fields, in both error formats', async () => {
      const sent = post('/users', { name: '', email: 'ada', phone: 'x', address: '\u0000' })
      const fields = ['address', 'email', 'name', 'phone']
      const problem = (await service.send(sent)).json()
      assert.deepEqual(problem.errors.map(({ field }: { field: string }) => field).sort(), fields)
      const code = (await service.send({ ...sent, headers: { ...json, accept: 'application/json' } })).json()
      assert.deepEqual(code.details.map(({ field }: { field: string }) => field).sort(), fields)
      for (const { issue } of code.details) assert.equal(typeof issue, 'string')
    })
  })
})
