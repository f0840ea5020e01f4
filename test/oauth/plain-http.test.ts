import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { request } from 'undici'
import { onSqlite } from '../support/engines.ts'
import { browser, client, person, type Real, realServer, redirectUri, through } from './real.ts'

onSqlite((engine) => {
  describe('plain HTTP on this machine: PLINTH_TLS=off in development', () => {
    let real: Real
    before(async () => {
      real = await realServer(engine, { PLINTH_TLS: 'off' })
    })
    after(() => real.close())

    it('200 without a redirect and without Strict-Transport-Security', async () => {
      assert.match(real.baseUrl, /^http:\/\/localhost:\d+$/)
      const { statusCode, headers } = await request(`${real.baseUrl}/products`)
      assert.equal(statusCode, 200)
      assert.equal(headers['strict-transport-security'], undefined)
      assert.equal(headers['x-content-type-options'], 'nosniff')
    })

    it('a user logs in with cookies that browsers accept over plain HTTP, and the code becomes a token', async () => {
      const app = await client(real)
      const one = browser(real)
      const query = { client_id: app.id, response_type: 'code', redirect_uri: redirectUri, scope: 'openid users:read' }
      const sent = await through(one, `/oauth/authorize?${new URLSearchParams(query)}`, await person(real))
      const code = sent.searchParams.get('code') as string
      assert.ok(code, sent.href)
      const names = [...one.jar.keys()].map((key) => key.split(' ')[0] as string)
      assert.ok(names.includes('plinth_session') && names.includes('plinth_device'))
      assert.ok(names.every((name) => !name.startsWith('__')))
      const answer = await request(`${real.baseUrl}/oauth/token`, {
        method: 'POST',
        headers: {
          authorization: `Basic ${Buffer.from(`${app.id}:${app.secret}`).toString('base64')}`,
          'content-type': 'application/x-www-form-urlencoded',
        },
        body: new URLSearchParams({ grant_type: 'authorization_code', code, redirect_uri: redirectUri }).toString(),
      })
      const { access_token } = (await answer.body.json()) as { access_token: string }
      const claims = JSON.parse(Buffer.from(access_token.split('.')[1] as string, 'base64url').toString())
      assert.deepEqual([claims.iss, claims.aud], [real.baseUrl, real.baseUrl])
      const users = await request(`${real.baseUrl}/users`, { headers: { authorization: `Bearer ${access_token}` } })
      assert.equal(users.statusCode, 200)
    })

    it('sets no Secure cookie', async () => {
      const { id } = await client(real)
      const query = new URLSearchParams({
        client_id: id,
        response_type: 'code',
        redirect_uri: redirectUri,
        scope: 'openid',
      })
      const { statusCode, headers } = await request(`${real.baseUrl}/oauth/authorize?${query}`)
      assert.equal(statusCode, 303)
      const cookies = [headers['set-cookie'] ?? []].flat()
      assert.ok(cookies.length > 0)
      for (const cookie of cookies) assert.match(cookie, /^plinth_(?!.*; *secure).*httponly/i)
    })
  })
})
