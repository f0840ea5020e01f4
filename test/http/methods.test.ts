import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Mounted, mount, send } from './support.ts'

describe('method handling', () => {
  let mounted: Mounted
  before(async () => {
    mounted = await mount(['methods'], (app) => {
      app.get('/things', async () => [])
      app.get('/things/:id', async () => ({}))
      app.get('/things/special', async () => ({}))
      app.patch('/things/:id', { config: { accepts: ['application/merge-patch+json'] } }, async () => ({}))
    })
  })
  after(() => mounted.app.close())
  type Method = NonNullable<Parameters<typeof send>[1]['method']>
  const ask = (method: string, url: string, accept = '*/*') =>
    send(mounted, { method: method as Method, url, headers: { accept } })

  it('204 with Allow and an empty body for OPTIONS on a known path', async () => {
    for (const [url, allow] of [
      ['/things', 'GET, HEAD, OPTIONS'],
      ['/things?x=1', 'GET, HEAD, OPTIONS'],
      ['/things/7', 'GET, HEAD, OPTIONS, PATCH'],
    ] as const) {
      const answer = await ask('OPTIONS', url)
      assert.equal(answer.statusCode, 204, url)
      assert.equal(answer.headers.allow, allow)
      assert.equal(answer.body, '')
      assert.equal(answer.headers['content-type'], undefined)
    }
  })

  it('204 with Accept-Patch for OPTIONS where PATCH is allowed (RFC 5789 §3.1)', async () => {
    const answer = await ask('OPTIONS', '/things/7')
    assert.match(String(answer.headers['accept-patch']), /application\/merge-patch\+json/)
    assert.match(String(answer.headers['accept-patch']), /application\/json/)
    assert.equal((await ask('OPTIONS', '/things')).headers['accept-patch'], undefined)
  })

  it('405 for an unsupported method and 404 for an unknown path, regardless of the body', async () => {
    for (const [url, status] of [
      ['/things', 405],
      ['/nothing', 404],
    ] as const) {
      for (const type of ['application/json', 'text/plain']) {
        const headers = { 'content-type': type }
        const answer = await send(mounted, { method: 'POST', url, headers, payload: '{' })
        assert.equal(answer.statusCode, status, `${url} ${type}`)
      }
    }
  })

  it('204 for OPTIONS with only the methods of the literal path in Allow, if a parameterized path also matches', async () => {
    assert.equal((await ask('OPTIONS', '/things/special')).headers.allow, 'GET, HEAD, OPTIONS')
  })

  it('405 METHOD_NOT_ALLOWED with Allow for a method that the path does not support', async () => {
    for (const method of ['POST', 'PUT', 'DELETE', 'TRACE', 'PROPFIND']) {
      const answer = await ask(method, '/things')
      assert.equal(answer.statusCode, 405, method)
      assert.equal(answer.headers.allow, 'GET, HEAD, OPTIONS')
      assert.equal(answer.json().errorCode, 'METHOD_NOT_ALLOWED')
    }
    assert.equal((await ask('DELETE', '/things/7')).headers.allow, 'GET, HEAD, OPTIONS, PATCH')
  })

  it('405 as a plain JSON error for clients that prefer it', async () => {
    const answer = await ask('POST', '/things', 'application/json')
    assert.equal(answer.statusCode, 405)
    const { errorCode, requestId, timestamp } = answer.json()
    assert.equal(errorCode, 'METHOD_NOT_ALLOWED')
    assert.ok(requestId && timestamp)
  })

  it('404 RESOURCE_NOT_FOUND for an unknown path, regardless of the method', async () => {
    for (const method of ['GET', 'HEAD', 'POST', 'OPTIONS', 'DELETE']) {
      for (const url of ['/', '/thing', '/things/7/more', '/Things', '/things/a/b']) {
        const answer = await ask(method, url)
        assert.equal(answer.statusCode, 404, `${method} ${url}`)
        assert.equal(answer.headers['x-error-code'], 'RESOURCE_NOT_FOUND')
        assert.equal(answer.headers.allow, undefined)
      }
    }
  })

  it('404 without echoing the path (T-HTTP-10)', async () => {
    const answer = await ask('GET', '/%3Cscript%3E/%0d%0ax')
    assert.equal(answer.statusCode, 404)
    assert.doesNotMatch(answer.body, /script/)
  })

  it('200 for HEAD on a path that allows GET, with Content-Length but without a body', async () => {
    const answer = await ask('HEAD', '/things')
    assert.equal(answer.statusCode, 200)
    assert.equal(answer.body, '')
    assert.equal(answer.headers['content-length'], '2')
  })
})
