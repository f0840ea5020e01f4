import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import { accessTexts } from '../../src/http/log.ts'
import { type Mounted, mount, send } from './support.ts'

describe('the access log', () => {
  let mounted: Mounted
  before(async () => {
    mounted = await mount(['accessLog', 'errors', 'authorize'], (app) => {
      app.get('/things/:id', { config: { scope: 'public' } }, async () => ({ secret: 'hunter2' }))
      app.post('/things', { config: { scope: 'things:write' } }, async () => {
        throw new Error('hunter2')
      })
    })
  })
  beforeEach(() => mounted.lines.splice(0))
  after(() => mounted.app.close())

  it('has one line for each answer: id, method, path, status, time and client', async () => {
    await send(mounted, { url: '/things/7', token: 'reader', headers: { 'x-request-id': 'trace-0001' } })
    assert.equal(mounted.lines.length, 1)
    const { ms, ...line } = mounted.lines[0] as (typeof mounted.lines)[0]
    assert.deepEqual(line, {
      requestId: 'trace-0001',
      method: 'GET',
      path: '/things/7',
      status: 200,
      client: 'cli_reader',
    })
    assert.ok(ms >= 0)
  })

  it('has no query string, header or body, which may hold secrets (T-OPS-02, T-JWT-10)', async () => {
    const headers = { cookie: 'c=hunter2', 'x-api-key': 'hunter2', 'user-agent': 'hunter2' }
    await send(mounted, { url: '/things/7?access_token=hunter2&q=hunter2', token: 'reader', headers })
    await send(mounted, { method: 'POST', url: '/things?a=hunter2', token: 'writer', payload: { password: 'hunter2' } })
    await send(mounted, { url: '/things/7?x=hunter2', headers: { authorization: 'Bearer hunter2' } })
    assert.equal(mounted.lines.length, 3)
    assert.doesNotMatch(JSON.stringify(mounted.lines), /hunter2|\?|Bearer/)
  })

  it('has the refused and the redirected too, without a client', async () => {
    await send(mounted, { method: 'POST', url: '/things', token: 'expired' })
    await send(mounted, { method: 'POST', url: '/things', token: 'writer' })
    await send(mounted, { url: '/nothing?x=1' })
    await send(mounted, { url: '/things/7?x=1', headers: { 'x-forwarded-proto': 'http' } })
    assert.deepEqual(
      mounted.lines.map(({ path, status, client }) => [path, status, client]),
      [
        ['/things', 401, undefined],
        ['/things', 500, 'cli_writer'],
        ['/nothing', 404, undefined],
        ['/things/7', 301, undefined],
      ],
    )
  })
})

describe('a line of the access log', () => {
  const line = { requestId: 'trace-0001', method: 'GET', path: '/things', status: 200, ms: 1.25, client: 'cli_a' }

  it('is one line of JSON, whatever came before it and whatever a client has sent', () => {
    const textOf = accessTexts()
    const paths = ['/things', '/a"b', '/a\\b', '/a\nb', '/\u007f', '/caf\u00e9', '/\ud83d\ude00', '/\u2028']
    for (const time of [1_700_000_000_000, 1_700_000_000_000, 1_700_000_000_001, 0]) {
      for (const client of ['cli_a', 'cli_a', 'a"b\n', undefined, undefined, 'cli_b']) {
        for (const path of paths) {
          const text = textOf({ ...line, path, client }, time)
          const { client: _, ...rest } = line
          const known = client === undefined ? {} : { client }
          assert.deepEqual(JSON.parse(text), { level: 30, time, ...rest, path, ...known })
          assert.equal(text.indexOf('\n'), text.length - 1)
        }
      }
    }
  })
})
