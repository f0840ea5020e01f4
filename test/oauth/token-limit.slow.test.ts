import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { request } from 'undici'
import { forEachEngine } from '../support/engines.ts'
import { client, type Real, realServer } from './real.ts'

const endpoints = ['/oauth/token', '/oauth/introspect', '/oauth/revoke']

forEachEngine((engine) => {
  describe('PLINTH_RATE_LIMIT_TOKEN', () => {
    let real: Real
    before(async () => {
      real = await realServer(engine, { PLINTH_RATE_LIMIT_TOKEN: '6/3600' })
    })
    after(() => real.close())

    it('429 with Retry-After at the token, introspection and revocation endpoints, which share the limit', async () => {
      const { id, secret } = await client(real, { grants: ['client_credentials'], redirectUris: [] })
      const post = (path: string) =>
        request(real.baseUrl + path, {
          method: 'POST',
          headers: { 'content-type': 'application/x-www-form-urlencoded' },
          body: `grant_type=client_credentials&token=x&client_id=${id}&client_secret=${secret}`,
          dispatcher: real.agent,
        })
      for (const [at, path] of [...endpoints, ...endpoints].entries()) {
        const { statusCode, headers, body } = await post(path)
        await body.dump()
        assert.deepEqual([path, statusCode], [path, 200])
        assert.deepEqual([headers['x-ratelimit-limit'], headers['x-ratelimit-remaining']], ['6', String(5 - at)])
      }
      for (const path of endpoints) {
        const { statusCode, headers, body } = await post(path)
        assert.deepEqual([path, statusCode], [path, 429])
        assert.ok(Number(headers['retry-after']) > 0)
        assert.deepEqual(Object.keys((await body.json()) as object), ['error'])
      }
      const { statusCode, body } = await request(`${real.baseUrl}/oauth/jwks`, { dispatcher: real.agent })
      await body.dump()
      assert.equal(statusCode, 200)
    })
  })
})
