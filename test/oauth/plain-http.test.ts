import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { onSqlite } from '../support/engines.ts'
import { authService, redirectUri } from './real.ts'
import { basic } from './support.ts'

onSqlite((engine) => {
  const auth = authService(engine, { PLINTH_TLS: 'off' })
  describe('plain HTTP in development (PLINTH_TLS=off)', () => {
    it('200 without a redirect and without Strict-Transport-Security', async () => {
      assert.match(auth.baseUrl, /^http:\/\/localhost:\d+$/)
      const { statusCode, headers } = await auth.send('/products')
      assert.equal(statusCode, 200)
      assert.equal(headers['strict-transport-security'], undefined)
      assert.equal(headers['x-content-type-options'], 'nosniff')
    })

    it('completes the code flow, with cookies that browsers accept over plain HTTP', async () => {
      const app = await auth.client()
      const one = auth.browser()
      const query = { client_id: app.id, response_type: 'code', redirect_uri: redirectUri, scope: 'openid users:read' }
      const sent = await one.authorize(`/oauth/authorize?${new URLSearchParams(query)}`, await auth.person())
      const code = sent.searchParams.get('code') as string
      assert.ok(code, sent.href)
      const names = [...one.jar.keys()].map((key) => key.split(' ')[0] as string)
      assert.ok(names.includes('plinth_session') && names.includes('plinth_device'))
      assert.ok(names.every((name) => !name.startsWith('__')))
      const form = { grant_type: 'authorization_code', code, redirect_uri: redirectUri }
      const { text } = await auth.postForm('/oauth/token', form, basic(app.id, app.secret as string))
      const { access_token } = JSON.parse(text)
      const claims = JSON.parse(Buffer.from(access_token.split('.')[1] as string, 'base64url').toString())
      assert.deepEqual([claims.iss, claims.aud], [auth.baseUrl, auth.baseUrl])
      assert.equal(await auth.statusFor(access_token), 200)
    })

    it('sets no Secure cookie', async () => {
      const { id } = await auth.client()
      const query = new URLSearchParams({
        client_id: id,
        response_type: 'code',
        redirect_uri: redirectUri,
        scope: 'openid',
      })
      const { statusCode, headers } = await auth.send(`/oauth/authorize?${query}`)
      assert.equal(statusCode, 303)
      const cookies = [headers['set-cookie'] ?? []].flat()
      assert.ok(cookies.length > 0)
      for (const cookie of cookies) assert.match(cookie, /^plinth_(?!.*; *secure).*httponly/i)
    })
  })
})
