import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { forEachEngine } from '../support/engines.ts'
import { authService } from './real.ts'

const endpoints = ['/oauth/token', '/oauth/introspect', '/oauth/revoke']

forEachEngine((engine) => {
  const auth = authService(engine, { PLINTH_RATE_LIMIT_TOKEN: '6/3600' })
  describe('PLINTH_RATE_LIMIT_TOKEN', () => {
    it('429 with Retry-After at the token, introspection and revocation endpoints, which share the limit', async () => {
      const { id, secret } = await auth.client({ grants: ['client_credentials'], redirectUris: [] })
      const credentials = { client_id: id, client_secret: secret as string }
      const post = (path: string) =>
        auth.postForm(path, { grant_type: 'client_credentials', token: 'x', ...credentials })
      for (const [at, path] of [...endpoints, ...endpoints].entries()) {
        const { status, headers } = await post(path)
        assert.deepEqual([path, status], [path, 200])
        assert.deepEqual([headers['x-ratelimit-limit'], headers['x-ratelimit-remaining']], ['6', String(5 - at)])
      }
      for (const path of endpoints) {
        const { status, headers, text } = await post(path)
        assert.deepEqual([path, status], [path, 429])
        assert.ok(Number(headers['retry-after']) > 0)
        assert.deepEqual(Object.keys(JSON.parse(text)), ['error'])
      }
      const { statusCode, body } = await auth.send('/oauth/jwks')
      await body.dump()
      assert.equal(statusCode, 200)
    })
  })
})
