import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import * as openid from 'openid-client'
import { forEachEngine } from '../support/engines.ts'
import { authService, codeFlow, codeGrants, type Person } from './real.ts'

forEachEngine((engine) => {
  const auth = authService(engine)
  let admin: string
  before(async () => {
    const config = await auth.openidClient({ grants: ['client_credentials'] })
    admin = (await openid.clientCredentialsGrant(config, { scope: 'admin users:write' })).access_token
  })

  const asAdmin = async (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: object) => {
    const headers = { authorization: `Bearer ${admin}`, ...(body && { 'content-type': 'application/json' }) }
    const response = await auth.send(path, { method, headers, body: body ? JSON.stringify(body) : null })
    const text = await response.body.text()
    assert.ok(response.statusCode < 300, text)
    return text && JSON.parse(text)
  }

  /** Gets tokens for a new user and uses the access token, which makes the service verify and cache it. */
  const begun = async () => {
    const [app, who, one] = [await auth.client(), await auth.person(), auth.browser()]
    const config = await auth.relyingParty(app)
    const flow = await codeFlow(config, one, who, { scope: 'openid users:read' })
    const { access_token: access, refresh_token: refresh = '', id_token } = flow.tokens
    assert.equal(await auth.statusFor(access), 200)
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
    const used = (tx: typeof auth.db.read) => tx.updateTable('authRecords').where('consumedAt', 'is not', null)
    await auth.db.write((tx) => used(tx).where('kind', '=', 'RefreshToken').set({ consumedAt: past }).execute())
    await assert.rejects(openid.refreshTokenGrant(config, refresh), { error: 'invalid_grant' })
  }

  describe('a token in use', () => {
    const endings: Record<string, (one: Begun) => Promise<unknown>> = {
      'it is revoked': ({ config, access }) => openid.tokenRevocation(config, access),
      'its refresh token is revoked': ({ config, refresh }) => openid.tokenRevocation(config, refresh),
      'its code is reused': reuseCode,
      'its refresh token is reused': reuseRefreshToken,
      'the user logs out': logOut,
      'the user sets a new password': (one) => setPassword(one, one.who),
      'the user is given a new role': ({ who }) =>
        asAdmin('POST', `/api/users/${who.userId}/invitation`, { role: 'admin' }),
      'the user is locked': ({ who }) => asAdmin('PATCH', `/api/users/${who.userId}/account`, { locked: true }),
      'the user’s sessions are ended': ({ who }) => asAdmin('DELETE', `/api/users/${who.userId}/sessions`),
      'the user’s session is ended': async ({ who }) => {
        const [session] = await asAdmin('GET', `/api/users/${who.userId}/sessions`)
        await asAdmin('DELETE', `/api/users/${who.userId}/sessions/${session.id}`)
      },
      'the user’s grant to its client is deleted': ({ who, app }) =>
        asAdmin('DELETE', `/api/users/${who.userId}/grants/${app.id}`),
      'the user is deleted': ({ who }) => asAdmin('DELETE', `/users/${who.userId}`),
      'the user is deleted under a version prefix': ({ who }) => asAdmin('DELETE', `/v2/users/${who.userId}`),
      'its client is revoked': ({ app }) => asAdmin('DELETE', `/api/clients/${app.id}`),
    }
    let other: Begun
    before(async () => {
      other = await begun()
    })
    for (const [what, end] of Object.entries(endings)) {
      it(`gets a 401 for the next request after ${what}`, async () => {
        const one = await begun()
        await end(one)
        assert.equal(await auth.statusFor(one.access), 401)
        assert.equal(await auth.statusFor(other.access), 200)
      })
    }

    it('gets a 401 for the next request after it is revoked (client-credentials token)', async () => {
      const config = await auth.openidClient({ grants: ['client_credentials'] })
      const { access_token } = await openid.clientCredentialsGrant(config, { scope: 'users:read' })
      assert.equal(await auth.statusFor(access_token), 200)
      await openid.tokenRevocation(config, access_token)
      assert.equal(await auth.statusFor(access_token), 401)
    })
  })

  it('403 for the next request after the token’s client loses the scope', async () => {
    const { app, access } = await begun()
    await asAdmin('PATCH', `/api/clients/${app.id}`, { scopes: ['openid', 'books:write'], grants: codeGrants })
    assert.equal(await auth.statusFor(access), 403)
  })

  it('200 for a token issued before its client’s secret was rotated', async () => {
    const { app, access } = await begun()
    await asAdmin('POST', `/api/clients/${app.id}/rotate-secret`)
    assert.equal(await auth.statusFor(access), 200)
  })
})
