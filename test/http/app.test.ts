import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { appOn } from '../support/app.ts'
import { onSqlite } from '../support/engines.ts'
import { sendRaw } from './support.ts'

onSqlite((engine) => {
  const service = appOn(engine, { prefixes: [''] })

  /**
   * Asserts that the error body matches the contract and that the common headers are present, wherever the error occurred.
   */
  const isProblem = (answer: { headers: Record<string, unknown>; body: string }, status: number, code: string) => {
    assert.match(String(answer.headers['content-type']), /^application\/problem\+json/)
    const body = JSON.parse(answer.body)
    assert.equal(body.status, status)
    assert.equal(body.errorCode, code)
    assert.ok(body.requestId && body.timestamp)
    assert.equal(answer.headers['cache-control'], 'no-store')
    assert.equal(answer.headers['x-error-code'], code)
  }

  describe('errors raised by the framework', () => {
    it('400 INVALID_INPUT for a path that cannot be decoded', async () => {
      for (const url of ['/products/%zz', '/%', '/products/%ff']) {
        const answer = await service.send({ url })
        assert.equal(answer.statusCode, 400, url)
        isProblem(answer, 400, 'INVALID_INPUT')
        assert.ok(answer.headers['strict-transport-security'])
        assert.ok(answer.headers['x-request-id'])
      }
    })

    it('414 URI_TOO_LONG for a path segment longer than any id', async () => {
      const answer = await service.send({ url: `/products/${'1'.repeat(400)}` })
      assert.equal(answer.statusCode, 414)
      isProblem(answer, 414, 'URI_TOO_LONG')
      assert.ok(answer.headers['strict-transport-security'])
    })

    it('414 URI_TOO_LONG for a URL of more than 8 KiB (T-HTTP-05)', async () => {
      const url = (length: number) => '/products?x='.padEnd(length, 'x')
      assert.equal((await service.send({ url: url(8_192) })).statusCode, 200)
      const answer = await service.send({ url: url(8_193) })
      assert.equal(answer.statusCode, 414)
      isProblem(answer, 414, 'URI_TOO_LONG')
    })
  })

  describe('over plain HTTP (T-HTTP-12)', () => {
    const plain = (url: string) => service.send({ url, headers: { 'x-forwarded-proto': 'http' } })

    it('301 to HTTPS for a request that the router rejects, if its target is syntactically valid', async () => {
      for (const url of ['/products/%ff?x=1', `/products/${'1'.repeat(400)}`]) {
        const answer = await plain(url)
        assert.equal(answer.statusCode, 301, url)
        assert.equal(answer.headers.location, `https://plinth.test${url}`)
        assert.equal(answer.headers['strict-transport-security'], undefined)
        assert.ok(answer.headers['x-request-id'])
      }
    })

    it('400 without Strict-Transport-Security if the target is syntactically invalid', async () => {
      for (const url of ['/products/%zz', '/%']) {
        const answer = await plain(url)
        assert.equal(answer.statusCode, 400, url)
        isProblem(answer, 400, 'INVALID_INPUT')
        assert.equal(answer.headers['strict-transport-security'], undefined)
        assert.equal(answer.headers.location, undefined)
      }
    })
  })

  describe('errors raised by the HTTP parser (T-HTTP-01, T-HTTP-05)', () => {
    const line = 'GET /products HTTP/1.1'
    const head = ['Host: plinth.test', 'X-Forwarded-Proto: https', 'Connection: close']

    it('431 HEADERS_TOO_LARGE for headers of more than 16 KiB', async () => {
      const answer = await sendRaw(service, [line, ...head, `X-Long: ${'x'.repeat(17_000)}`])
      assert.equal(answer.status, 431)
      isProblem(answer, 431, 'HEADERS_TOO_LARGE')
    })

    const malformed = [
      ['Content-Length: 1', 'Content-Length: 2'],
      ['Content-Length: 1', 'Transfer-Encoding: chunked'],
      ['Content-Length: 0x1'],
      ['Content-Length: +1'],
      ['X-Space : 1'],
    ]
    /** Sends a malformed request without `Connection: close`, followed by a valid request. */
    const post = (lines: string[]) => {
      const next = 'GET /livez HTTP/1.1\r\nHost: plinth.test\r\n\r\n'
      return sendRaw(service, ['POST /products HTTP/1.1', ...head.slice(0, 2), ...lines], next)
    }

    for (const lines of malformed) {
      it(`400 INVALID_INPUT for ${lines.join(' and ')}; the server closes the connection`, async () => {
        const answer = await post(lines)
        assert.equal(answer.status, 400)
        assert.equal(answer.headers.connection, 'close')
        // This fails if a second response follows the problem document.
        isProblem(answer, 400, 'INVALID_INPUT')
      })
    }
  })

  describe('the order of checks', () => {
    const post = (url: string, scopes: string | null, payload: string, type = 'application/json') =>
      service.send({ method: 'POST', url, scopes, payload, headers: { 'content-type': type } })
    const code = async (answer: ReturnType<typeof post>) => (await answer).json().errorCode

    it('404 or 405, then 401, 403, 415, 400, 422 and 409 for a POST', async () => {
      const taken = '{"name":"A","email":"a@plinth.test"}'
      assert.equal((await post('/users', 'users:write', taken)).statusCode, 201)
      assert.equal(await code(post('/nothing', null, '{', 'text/plain')), 'RESOURCE_NOT_FOUND')
      assert.equal(await code(post('/users/1', null, '{', 'text/plain')), 'METHOD_NOT_ALLOWED')
      assert.equal(await code(post('/users', null, '{', 'text/plain')), 'AUTH_REQUIRED')
      assert.equal(await code(post('/users', 'users:read', '{', 'text/plain')), 'ACCESS_DENIED')
      assert.equal(await code(post('/users', 'users:write', '{', 'text/plain')), 'UNSUPPORTED_MEDIA_TYPE')
      assert.equal(await code(post('/users', 'users:write', '{')), 'INVALID_INPUT')
      assert.equal(await code(post('/users', 'users:write', '{"email":"x"}')), 'MISSING_REQUIRED_FIELD')
      assert.equal(await code(post('/users', 'users:write', '{"name":"","email":"a@plinth.test"}')), 'VALIDATION_ERROR')
      assert.equal(await code(post('/users', 'users:write', taken)), 'DUPLICATE_RESOURCE')
    })

    const put = (url: string, payload: string, tag: string) =>
      service.send({ method: 'PUT', url, payload, headers: { 'content-type': 'application/json', 'if-match': tag } })

    it('400 or 422, then 404, 412 and 409 for a PUT with If-Match', async () => {
      await post('/users', 'users:write', '{"name":"B","email":"b@plinth.test"}')
      const taken = '{"name":"B","email":"a@plinth.test"}'
      assert.equal(await code(put('/users/99', '{}', '"7"')), 'MISSING_REQUIRED_FIELD')
      assert.equal(await code(put('/users/99', '{"name":"","email":"x@y"}', '"7"')), 'VALIDATION_ERROR')
      assert.equal(await code(put('/users/99', taken, '"7"')), 'RESOURCE_NOT_FOUND')
      assert.equal(await code(put('/users/2', taken, '"7"')), 'PRECONDITION_FAILED')
      assert.equal(await code(put('/users/2', taken, '"1"')), 'DUPLICATE_RESOURCE')
    })
  })
})
