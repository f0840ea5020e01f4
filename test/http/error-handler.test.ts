import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Problem, type ProblemCode, problems } from '../../src/http/problems/problem.ts'
import { baseUrl, type Mounted, mount, send } from './support.ts'

const problemType = 'application/problem+json; charset=utf-8'
const jsonType = 'application/json; charset=utf-8'
const secrets = /select \*|\/srv\/plinth|at Object|node_modules|hunter2|\.ts:/

describe('errors', () => {
  let mounted: Mounted
  let toThrow: unknown
  const sent = new Set<string>()
  before(async () => {
    const routes: Parameters<typeof mount>[1] = (app) => {
      app.get('/thing', async (_request, reply) => {
        reply.headers({ etag: '"1"', 'last-modified': 'x', expires: 'x' })
        throw toThrow
      })
      app.get('/sync', () => {
        throw toThrow
      })
    }
    mounted = await mount(['errorHandler'], routes, {
      isUnavailable: (error) => (error as Error)?.message === 'disk full',
    })
  })
  after(() => mounted.app.close())

  const fail = (error: unknown, accept?: string, url = '/thing?token=hunter2') => {
    toThrow = error
    mounted.faults.length = 0
    return send(mounted, { url, headers: accept === undefined ? {} : { accept } })
  }
  const conflict = () =>
    new Problem('DUPLICATE_RESOURCE', 'There is one already', { errors: [{ field: 'email', message: 'is in use' }] })

  describe('problem+json errors (RFC 9457)', () => {
    it('409 with every field that the contract specifies', async () => {
      const answer = await fail(conflict())
      assert.equal(answer.statusCode, 409)
      assert.equal(answer.headers['content-type'], problemType)
      const { requestId, timestamp, ...rest } = answer.json()
      assert.deepEqual(rest, {
        type: `${baseUrl}/problems/duplicate-resource`,
        title: 'The resource already exists',
        status: 409,
        detail: 'There is one already',
        instance: `urn:request:${requestId}`,
        errorCode: 'DUPLICATE_RESOURCE',
        errors: [{ field: 'email', message: 'is in use' }],
      })
      assert.equal(timestamp, new Date(mounted.clock.now).toISOString())
      assert.match(requestId, /^[\w.-]{8,64}$/)
    })

    it('409 without `errors` if no field is invalid', async () => {
      assert.equal('errors' in (await fail(new Problem('DUPLICATE_RESOURCE', 'There is one'))).json(), false)
    })
  })

  describe('plain JSON errors', () => {
    it('409 with every field that the contract specifies, and the path without its query', async () => {
      const answer = await fail(conflict(), 'application/json')
      assert.equal(answer.statusCode, 409)
      assert.equal(answer.headers['content-type'], jsonType)
      const { requestId, timestamp, ...rest } = answer.json()
      assert.deepEqual(rest, {
        errorCode: 'DUPLICATE_RESOURCE',
        message: 'There is one already',
        details: [{ field: 'email', issue: 'is in use' }],
        path: '/thing',
      })
      assert.equal(timestamp, new Date(mounted.clock.now).toISOString())
      assert.match(requestId, /^[\w.-]{8,64}$/)
    })

    const problemForm = [
      undefined,
      '',
      '*/*',
      'application/*',
      'application/problem+json',
      'text/html',
      'text/html, */*;q=0.8',
      'application/json, */*',
      'application/json, application/problem+json',
      'application/json, application/*',
      'application/json;q=0.5, */*',
      'application/json;q=0.5, application/problem+json;q=0.5',
      'application/json;q=0.5, application/*;q=0.8, */*;q=0.1',
      'application/json;q=0',
      'application/jsonp',
      'application/vnd.plinth+json',
    ]
    const codeForm = [
      'application/json',
      'Application/JSON',
      'application/json; charset=utf-8',
      'application/json;q=0.1',
      'text/html, application/json',
      'application/json, text/plain, */*;q=0.9',
      'application/json, */*;q=0.5',
      'application/json , application/* ; q=0.9',
      'application/json, application/problem+json;q=0.9',
      'application/problem+json;q=0, application/json;q=0.1, */*',
      'application/problem+json;q=0.2, application/json;q=0.3',
      'application/json;q=0.8, application/*;q=0.1, */*;q=1',
    ]
    for (const accept of problemForm) {
      it(`are not used ${accept === undefined ? 'without Accept' : `for Accept: ${accept}`}`, async () => {
        assert.equal((await fail(conflict(), accept)).headers['content-type'], problemType)
      })
    }
    for (const accept of codeForm) {
      it(`are used for Accept: ${accept}`, async () => {
        assert.equal((await fail(conflict(), accept)).headers['content-type'], jsonType)
      })
    }
  })

  describe('errors in both formats', () => {
    for (const accept of ['application/problem+json', 'application/json']) {
      it(`have the status and X-Error-Code of their code, Cache-Control: no-store and no validators, as ${accept}`, async () => {
        for (const [code, [status]] of Object.entries(problems)) {
          const answer = await fail(new Problem(code as ProblemCode, 'Why'), accept)
          assert.equal(answer.statusCode, status, code)
          assert.equal(answer.headers['x-error-code'], code)
          assert.equal(answer.headers['cache-control'], 'no-store')
          assert.match(String(answer.headers.vary), /Accept/)
          for (const name of ['etag', 'last-modified', 'expires']) assert.equal(answer.headers[name], undefined, name)
          if (code === 'RATE_LIMIT_EXCEEDED' || code === 'QUOTA_EXCEEDED') {
            // The contract requires this one-field body, regardless of Accept.
            assert.deepEqual(answer.json(), { error: 'Why' })
            continue
          }
          const { errorCode, requestId, timestamp } = answer.json()
          assert.equal(errorCode, code)
          assert.ok(!sent.has(requestId) && sent.add(requestId))
          assert.equal(timestamp, '2026-03-01T12:00:00.500Z')
        }
      })
    }

    it('include the problem’s headers, which override the default Cache-Control', async () => {
      const gone = new Problem('SERVICE_UNAVAILABLE', 'Later', {
        headers: { 'retry-after': '7', 'cache-control': 'x' },
      })
      const { headers } = await fail(gone)
      assert.equal(headers['retry-after'], '7')
      assert.equal(headers['cache-control'], 'x')
    })

    it('have the statuses that the contract specifies for their codes', () => {
      const statuses = { VALIDATION_ERROR: 422, AUTH_REQUIRED: 401, ACCESS_DENIED: 403, RESOURCE_NOT_FOUND: 404 }
      const more = { DUPLICATE_RESOURCE: 409, INTERNAL_ERROR: 500, INVALID_INPUT: 400, MISSING_REQUIRED_FIELD: 400 }
      const others = { AUTH_TOKEN_EXPIRED: 401, PERMISSION_DENIED: 403, RATE_LIMIT_EXCEEDED: 429 }
      for (const [code, status] of Object.entries({ ...statuses, ...more, ...others })) {
        assert.equal(problems[code as ProblemCode][0], status, code)
        assert.match(code, /^[A-Z]+(_[A-Z]+)*$/)
      }
    })
  })

  describe('500 INTERNAL_ERROR (T-HTTP-14)', () => {
    const internals = () => [
      Object.assign(new Error('select * from users failed at /srv/plinth/db.ts:7'), {
        code: 'SQLITE_ERROR',
        errcode: 1,
      }),
      Object.assign(new TypeError("Cannot read properties of undefined (reading 'hunter2')"), { statusCode: 502 }),
      Object.assign(new Error('/srv/plinth/secret'), { statusCode: 404, headers: { 'x-secret': 'hunter2' } }),
      Object.assign(new Error('select * '), { status: 418, expose: true }),
      'select * from users',
      { password: 'hunter2' },
      undefined,
      null,
      7,
    ]
    for (const accept of ['application/problem+json', 'application/json']) {
      for (const url of ['/thing', '/sync']) {
        it(`reveals no internals for any value thrown by the handler of ${url}, as ${accept}`, async () => {
          for (const error of internals()) {
            const answer = await fail(error, accept, url)
            assert.equal(answer.statusCode, 500, String(error))
            assert.equal(answer.json().errorCode, 'INTERNAL_ERROR')
            assert.doesNotMatch(answer.body + JSON.stringify(answer.headers), secrets)
            assert.equal(mounted.faults.length, 1)
          }
        })
      }
    }

    it('is reported to the operator with the thrown error, or with the cause of a thrown `Problem`', async () => {
      const cause = new Error('select * from users')
      await fail(cause)
      assert.deepEqual(mounted.faults, [cause])
      const answer = await fail(new Problem('INTERNAL_ERROR', 'It broke', { cause }))
      assert.deepEqual(mounted.faults, [cause])
      assert.doesNotMatch(answer.body, secrets)
    })
  })

  it('a 409 is not reported to the operator', async () => {
    await fail(conflict())
    assert.deepEqual(mounted.faults, [])
  })

  describe('503 SERVICE_UNAVAILABLE', () => {
    it('is sent with Retry-After and without internals while the store is unavailable', async () => {
      const answer = await fail(new Error('disk full'))
      assert.equal(answer.statusCode, 503)
      assert.equal(answer.json().errorCode, 'SERVICE_UNAVAILABLE')
      assert.match(String(answer.headers['retry-after']), /^[1-9][0-9]*$/)
      assert.doesNotMatch(answer.body, /disk/)
      assert.deepEqual(mounted.faults.map(String), ['Error: disk full'])
    })
  })
})
