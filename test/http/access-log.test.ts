import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import { type AccessLine, accessTexts } from '../../src/http/server/access-log.ts'
import { type Mounted, mount, send } from './support.ts'

describe('the access log', () => {
  let mounted: Mounted
  before(async () => {
    mounted = await mount(['accessLog', 'errorHandler', 'authorize', 'methods'], (app) => {
      app.get('/things/:id', { config: { scope: 'public', cache: 'private' } }, async () => ({ secret: 'hunter2' }))
      app.get('/euro', { config: { scope: 'public' } }, async () => ({ price: '7 €' }))
      app.post('/things', { config: { scope: 'things:write' } }, async () => {
        throw new Error('hunter2')
      })
    })
  })
  beforeEach(() => mounted.lines.splice(0))
  after(() => mounted.app.close())

  it('has one line per response, with the request, the caller and the result', async () => {
    await send(mounted, { url: '/things/7', token: 'reader', headers: { 'x-request-id': 'trace-0001' } })
    assert.equal(mounted.lines.length, 1)
    const { ms, ...line } = mounted.lines[0] as (typeof mounted.lines)[0]
    assert.deepEqual(line, {
      requestId: 'trace-0001',
      method: 'GET',
      path: '/things/7',
      route: '/things/:id',
      status: 200,
      bytes: 20,
      address: '127.0.0.1',
      client: 'cli_reader',
      subject: 'usr_1',
      errorCode: undefined,
      traceId: undefined,
    })
    assert.ok(ms >= 0)
  })

  it('records the size of the body as sent: 0 for HEAD and 304', async () => {
    const { headers } = await send(mounted, { url: '/things/7' })
    await send(mounted, { method: 'HEAD', url: '/things/7' })
    await send(mounted, { url: '/things/7', headers: { 'if-none-match': headers.etag as string } })
    await send(mounted, { url: '/euro' })
    assert.deepEqual(
      mounted.lines.map(({ status, bytes }) => [status, bytes]),
      [
        [200, 20],
        [200, 0],
        [304, 0],
        [200, Buffer.byteLength('{"price":"7 €"}')],
      ],
    )
  })

  it('records the client address forwarded by a trusted proxy', async () => {
    await send(mounted, { url: '/things/7', headers: { 'x-forwarded-for': '192.0.2.7' } })
    assert.equal(mounted.lines[0]?.address, '192.0.2.7')
  })

  it('contains no query string, cookie, API key, token, user agent or body (T-OPS-02, T-JWT-10)', async () => {
    const headers = { cookie: 'c=hunter2', 'x-api-key': 'hunter2', 'user-agent': 'hunter2' }
    await send(mounted, { url: '/things/7?access_token=hunter2&q=hunter2', token: 'reader', headers })
    await send(mounted, { method: 'POST', url: '/things?a=hunter2', token: 'writer', payload: { password: 'hunter2' } })
    await send(mounted, { url: '/things/7?x=hunter2', headers: { authorization: 'Bearer hunter2' } })
    assert.equal(mounted.lines.length, 3)
    assert.doesNotMatch(JSON.stringify(mounted.lines), /hunter2|\?|Bearer/)
  })

  it('is written for rejected, failed and redirected requests, and names the client only if the token is valid', async () => {
    await send(mounted, { method: 'POST', url: '/things', token: 'expired' })
    await send(mounted, { method: 'POST', url: '/things', token: 'writer' })
    await send(mounted, { url: '/nothing?x=1' })
    await send(mounted, { url: '/things/7?x=1', headers: { 'x-forwarded-proto': 'http' } })
    assert.deepEqual(
      mounted.lines.map(({ path, route, status, client, errorCode }) => [path, route, status, client, errorCode]),
      [
        ['/things', '/things', 401, undefined, 'AUTH_TOKEN_EXPIRED'],
        ['/things', '/things', 500, 'cli_writer', 'INTERNAL_ERROR'],
        ['/nothing', undefined, 404, undefined, 'RESOURCE_NOT_FOUND'],
        ['/things/7', '/things/:id', 301, undefined, undefined],
      ],
    )
  })
})

describe('an access log line', () => {
  const line = {
    ...{ requestId: 'trace-0001', method: 'GET', path: '/things', route: '/things', status: 200, ms: 1.25, bytes: 7 },
    ...{ address: '127.0.0.1', client: 'cli_a', subject: 'usr_1', errorCode: undefined },
  }

  it('is one line of valid JSON for any input, regardless of previous lines', () => {
    const textOf = accessTexts()
    const paths = ['/things', '/a"b', '/a\\b', '/a\nb', '/\u007f', '/caf\u00e9', '/\ud83d\ude00', '/\u2028']
    const senders: Partial<AccessLine>[] = [
      { client: 'cli_a', subject: 'usr_1', address: '192.0.2.1' },
      { client: 'cli_a', subject: 'usr_1', address: '192.0.2.1' },
      { client: 'cli_a', subject: 'usr_2', address: '192.0.2.1' },
      { client: 'a"b\n', subject: 'a"b\n', address: '2001:db8::1' },
      { client: undefined, subject: undefined, address: undefined },
      { client: undefined, subject: undefined, address: '192.0.2.1' },
    ]
    for (const time of [1_700_000_000_000, 1_700_000_000_000, 1_700_000_000_001, 0]) {
      for (const sender of senders) {
        for (const path of paths) {
          const sent: AccessLine = { ...line, ...sender, path }
          const text = textOf(sent, time)
          const expected = { level: 30, time: new Date(time).toISOString(), msg: 'request completed', ...sent }
          assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(expected)))
          assert.equal(text.indexOf('\n'), text.length - 1)
        }
      }
    }
  })

  it('omits fields without a value', () => {
    const unknown = { route: undefined, bytes: undefined, address: undefined, client: undefined, subject: undefined }
    const text = accessTexts()({ ...line, ...unknown, errorCode: 'RESOURCE_NOT_FOUND' }, 0)
    const { level, time, msg, ...rest } = JSON.parse(text)
    assert.deepEqual([level, time, msg], [30, '1970-01-01T00:00:00.000Z', 'request completed'])
    assert.deepEqual(rest, {
      ...{ requestId: 'trace-0001', method: 'GET', path: '/things', status: 200, ms: 1.25 },
      errorCode: 'RESOURCE_NOT_FOUND',
    })
  })
})
