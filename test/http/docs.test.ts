import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Script } from 'node:vm'
import { gunzipSync } from 'node:zlib'
import { docs } from '../../src/http/docs.ts'
import { type Mounted, mount, send } from './support.ts'

describe('docs', () => {
  let mounted: Mounted
  before(async () => {
    mounted = await mount(['authorize', 'conditional'], (app) => {
      app.register(docs, { documents: { '/openapi.json': { title: 'All' }, '/v2/openapi.json': { title: 'v2' } } })
    })
  })
  after(() => mounted.app.close())
  const get = (url: string, headers: Record<string, string> = {}) => send(mounted, { method: 'GET', url, headers })

  it('200 for everybody, with a policy that allows no script in the page and no other host', async () => {
    const { statusCode, headers, body } = await get('/docs')
    assert.equal(statusCode, 200)
    assert.equal(headers['content-type'], 'text/html; charset=utf-8')
    const policy = String(headers['content-security-policy'])
    assert.match(policy, /default-src 'none'; script-src 'self'; .*connect-src 'self'; .*frame-ancestors 'none'/)
    assert.doesNotMatch(policy, /https?:|\*|unsafe-eval/)
    assert.doesNotMatch(body, /<script(?! src="\/docs\/)|https?:|\son\w+=/)
    assert.match(body, /<noscript>.*href="\/openapi\.json".*href="\/v2\/openapi\.json".*<\/noscript>/s)
  })

  it('200 with the script of the page, packed for who can unpack it', async () => {
    const packed = await get('/docs/reference.js', { 'accept-encoding': 'br, gzip;q=0.5' })
    const plain = await get('/docs/reference.js', { 'accept-encoding': 'br, gzip;q=0' })
    assert.equal(packed.headers['content-encoding'], 'gzip')
    assert.equal(plain.headers['content-encoding'], undefined)
    assert.ok(packed.rawPayload.length < 2_000_000 && plain.rawPayload.length > 4_000_000)
    assert.ok(gunzipSync(packed.rawPayload).equals(plain.rawPayload))
    assert.ok(new Script(plain.body), 'it is JavaScript')
    assert.match(String(packed.headers.vary), /Accept-Encoding/)
    assert.notEqual(packed.headers.etag, plain.headers.etag)
  })

  it('304 for who has the script, in the form that is asked for', async () => {
    const coding = { 'accept-encoding': 'gzip' }
    const { etag } = (await get('/docs/reference.js', coding)).headers
    for (const known of [String(etag), `"x", W/${etag}`, '*']) {
      const answer = await get('/docs/reference.js', { ...coding, 'if-none-match': known })
      assert.deepEqual([answer.statusCode, answer.body, answer.headers.etag], [304, '', etag], known)
    }
    const other = await get('/docs/reference.js', { 'if-none-match': String(etag) })
    assert.equal(other.statusCode, 200, 'the unpacked form has a tag of its own')
  })
})
