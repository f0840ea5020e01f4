import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import * as openid from 'openid-client'
import { request } from 'undici'
import { forEachEngine } from '../support/engines.ts'
import {
  browser,
  client,
  codeFlow,
  codeGrants,
  type Person,
  person,
  type Real,
  realServer,
  relyingParty,
} from './real.ts'

forEachEngine((engine) => {
  let real: Real
  let admin: string
  before(async () => {
    real = await realServer(engine)
    const config = await relyingParty(real, await client(real, { grants: ['client_credentials'] }))
    admin = (await openid.clientCredentialsGrant(config, { scope: 'admin users:write' })).access_token
  })
  after(() => real.close())

  const send = async (token: string, path: string, method: 'GET' | 'POST' | 'PATCH' | 'DELETE', body?: object) => {
    const headers = { authorization: `Bearer ${token}`, ...(body && { 'content-type': 'application/json' }) }
    const options = { method, headers, dispatcher: real.agent, body: body ? JSON.stringify(body) : null }
    const answer = await request(real.baseUrl + path, options)
    return { status: answer.statusCode, text: await answer.body.text() }
  }
  const asAdmin = async (method: 'POST' | 'PATCH' | 'DELETE', path: string, body?: object) => {
    const { status, text } = await send(admin, path, method, body)
    assert.ok(status < 300, text)
    return text && JSON.parse(text)
  }
  /** The status that a token gets from the API. */
  const use = async (token: string) => (await send(token, '/users', 'GET')).status
  /** Tokens of a user that the service has already verified and cached. */
  const begun = async () => {
    const [app, who, one] = [await client(real), await person(real), browser(real)]
    const config = await relyingParty(real, app)
    const flow = await codeFlow(config, one, who, { scope: 'openid users:read' })
    const { access_token: access, refresh_token: refresh = '', id_token } = flow.tokens
    assert.equal(await use(access), 200)
    return { ...{ app, who, one, config, access, refresh, id_token }, ...flow }
  }
  type Begun = Awaited<ReturnType<typeof begun>>

  const setPassword = async ({ one }: Begun, who: Person) => {
    const { url } = await asAdmin('POST', `/api/users/${who.userId}/invitation`)
    const password = 'walnut harbour kettle'
    const form = { token: new URL(url).searchParams.get('token') as string, password, repeated: password }
    assert.equal((await one.visit('/oauth/invitation', form)).status, 200)
  }
  const logOut = async ({ one }: Begun) => {
    const [, xsrf = ''] = /name="xsrf" value="(\w+)"/.exec((await one.visit('/oauth/logout')).text) ?? []
    assert.match((await one.visit('/oauth/logout/confirm', { xsrf, logout: 'yes' })).text, /You are signed out/)
  }
  const reuseCode = async ({ config, back, verifier }: Begun) => {
    const state = back.searchParams.get('state') as string
    const checks = { expectedState: state, pkceCodeVerifier: verifier, idTokenExpected: true }
    await assert.rejects(openid.authorizationCodeGrant(config, back, checks), { error: 'invalid_grant' })
  }
  const reuseRefreshToken = async ({ config, refresh }: Begun) => {
    await openid.refreshTokenGrant(config, refresh)
    const past = new Date(Date.now() - 10_500).toISOString()
    const used = (tx: typeof real.db.read) => tx.updateTable('authRecords').where('consumedAt', 'is not', null)
    await real.db.write((tx) => used(tx).where('kind', '=', 'RefreshToken').set({ consumedAt: past }).execute())
    await assert.rejects(openid.refreshTokenGrant(config, refresh), { error: 'invalid_grant' })
  }

  describe('a token in use is refused from the next request on after', () => {
    const endings: Record<string, (one: Begun) => Promise<unknown>> = {
      'it was revoked': ({ config, access }) => openid.tokenRevocation(config, access),
      'its refresh token was revoked': ({ config, refresh }) => openid.tokenRevocation(config, refresh),
      'its code was reused': reuseCode,
      'its refresh token was reused': reuseRefreshToken,
      'the user logged out': logOut,
      'the user got a new password': (one) => setPassword(one, one.who),
      'the user got another role': ({ who }) =>
        asAdmin('POST', `/api/users/${who.userId}/invitation`, { role: 'admin' }),
      'the user was deleted': ({ who }) => asAdmin('DELETE', `/users/${who.userId}`),
      'the user was deleted under a version prefix': ({ who }) => asAdmin('DELETE', `/v2/users/${who.userId}`),
      'its client was revoked': ({ app }) => asAdmin('DELETE', `/api/clients/${app.id}`),
    }
    for (const [what, end] of Object.entries(endings)) {
      it(what, async () => {
        const one = await begun()
        const other = await begun()
        await end(one)
        assert.equal(await use(one.access), 401)
        assert.equal(await use(other.access), 200)
      })
    }

    it('it was revoked, if it is a client-credentials token', async () => {
      const config = await relyingParty(real, await client(real, { grants: ['client_credentials'] }))
      const { access_token } = await openid.clientCredentialsGrant(config, { scope: 'users:read' })
      assert.equal(await use(access_token), 200)
      await openid.tokenRevocation(config, access_token)
      assert.equal(await use(access_token), 401)
    })
  })

  it('403 from the next request on after the scope was removed from the client', async () => {
    const { app, access } = await begun()
    await asAdmin('PATCH', `/api/clients/${app.id}`, { scopes: ['openid', 'books:write'], grants: codeGrants })
    assert.equal(await use(access), 403)
  })

  it('200 after the client got a new secret: its tokens stay valid', async () => {
    const { app, access } = await begun()
    await asAdmin('POST', `/api/clients/${app.id}/rotate-secret`)
    assert.equal(await use(access), 200)
  })
})
