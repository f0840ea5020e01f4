import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Problem } from '../../src/http/problems/problem.ts'
import { type Mounted, mount, send, sendRaw } from './support.ts'

const made = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

describe('X-Request-Id', () => {
  let mounted: Mounted
  before(async () => {
    mounted = await mount(['errorHandler', 'https'], (app) => {
      app.get('/things', { config: { scope: 'public' } }, async ({ id }) => ({ id }))
      app.post('/things', { config: { scope: 'public' } }, async () => {
        throw new Problem('DUPLICATE_RESOURCE', 'There is one')
      })
    })
  })
  after(() => mounted.app.close())
  const ask = async (sent?: string) => {
    const headers = sent === undefined ? {} : { 'x-request-id': sent }
    return String((await send(mounted, { url: '/things', headers })).headers['x-request-id'])
  }

  it('is generated for each request that does not have one', async () => {
    const ids = []
    // More requests than a batch of pre-generated random ids covers.
    for (let count = 0; count < 600; count++) ids.push(await ask())
    for (const id of ids) assert.match(id, made)
    assert.equal(new Set(ids).size, ids.length)
  })

  it("is the client's id if it consists of 8 to 64 safe characters", async () => {
    for (const own of ['12345678', 'a'.repeat(64), 'Trace-1.2_3']) assert.equal(await ask(own), own)
  })

  it("is generated if the client's id is too short, too long or unsafe (T-HTTP-10)", async () => {
    for (const own of ['1234567', 'a'.repeat(65), 'abcdefg h', '<script>1', 'abcdefgh"', 'ä'.repeat(9), '']) {
      assert.match(await ask(own), made, own)
    }
  })

  it('is generated if the client sends two ids', async () => {
    const twice = ['X-Request-Id: abcdefgh-1', 'X-Request-Id: abcdefgh-2']
    const lines = ['GET /things HTTP/1.1', 'Host: a', 'X-Forwarded-Proto: https', 'Connection: close', ...twice]
    assert.match((await sendRaw(mounted, lines)).headers['x-request-id'] as string, made)
  })

  it('is included in error bodies and in the headers of 409, 404 and 301 responses', async () => {
    const headers = { 'x-request-id': 'trace-0001' }
    const conflict = await send(mounted, { method: 'POST', url: '/things', headers })
    assert.equal(conflict.headers['x-request-id'], 'trace-0001')
    assert.equal(conflict.json().requestId, 'trace-0001')
    assert.equal(conflict.json().instance, 'urn:request:trace-0001')
    const missing = await send(mounted, { url: '/nothing', headers })
    assert.equal(missing.statusCode, 404)
    assert.equal(missing.headers['x-request-id'], 'trace-0001')
    const moved = await send(mounted, { url: '/things', headers: { 'x-forwarded-proto': 'http' } })
    assert.match(String(moved.headers['x-request-id']), made)
  })
})
