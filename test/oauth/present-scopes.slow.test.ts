import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { before, describe, it } from 'node:test'
import { decodeJwt, SignJWT } from 'jose'
import * as openid from 'openid-client'
import { operator } from '../../src/audit/chain.ts'
import { builtIn } from '../../src/catalog/service.ts'
import { revokeClient, updateClient } from '../../src/oauth/clients/update.ts'
import { forEachEngine } from '../support/engines.ts'
import { authService, codeFlow, redirectUri } from './real.ts'

const sharedSecret = 'a shared secret of thirty-two bytes, or more'

forEachEngine((engine) => {
  const auth = authService(engine, { PLINTH_JWT_SHARED_SECRET: sharedSecret })
  /** A client that may introspect other clients' tokens. */
  let gateway: openid.Configuration
  before(async () => {
    gateway = await auth.openidClient({ grants: ['client_credentials'], redirectUris: [], introspectsOthers: true })
  })

  const granted = async (scope = 'openid users:read books:write') => {
    const app = await auth.client({ grants: ['authorization_code', 'refresh_token', 'client_credentials'] })
    const config = await auth.relyingParty(app)
    const { tokens } = await codeFlow(config, auth.browser(), auth.user, { scope })
    const own = await openid.clientCredentialsGrant(config, { scope: 'users:read books:write' })
    return { app, config, tokens, refresh: tokens.refresh_token as string, own: own.access_token }
  }
  const change = () => ({ db: auth.db, sealer: auth.sealer, actor: operator })
  const narrow = (id: string, scopes: string[]) => updateClient(change(), builtIn.scopes, id, { scopes })
  const introspect = (token: string) => openid.tokenIntrospection(gateway, token)

  describe('POST /oauth/introspect', () => {
    it('200 with {"active":false} for every token of a revoked client', async () => {
      const { app, tokens, refresh, own } = await granted()
      await revokeClient(change(), app.id)
      for (const token of [tokens.access_token, refresh, own]) {
        assert.deepEqual(await introspect(token), { active: false })
      }
    })

    it('200 with only the scopes that the client still has', async () => {
      const { app, tokens, refresh, own } = await granted()
      await introspect(own)
      await narrow(app.id, ['openid', 'users:read'])
      const scopes = await Promise.all([tokens.access_token, refresh, own].map(introspect))
      assert.deepEqual(
        scopes.map(({ scope }) => scope),
        ['openid users:read', 'openid users:read', 'users:read'],
      )
    })
  })

  describe('POST /oauth/token with refresh_token', () => {
    const isScopeError = ({ error }: openid.ResponseBodyError) => error === 'invalid_scope'

    it('200 with the scopes that the client still has, and with all granted scopes once the client has them again', async () => {
      const { app, config, refresh } = await granted()
      await narrow(app.id, ['users:read', 'reports:read'])
      const next = await openid.refreshTokenGrant(config, refresh)
      assert.deepEqual([next.scope, next.id_token], ['users:read', undefined])
      assert.equal(decodeJwt(next.access_token).scope, 'users:read')
      await assert.rejects(openid.refreshTokenGrant(config, refresh, { scope: 'books:write' }), isScopeError)
      await narrow(app.id, ['openid', 'users:read', 'books:write'])
      const last = await openid.refreshTokenGrant(config, next.refresh_token as string)
      assert.equal(last.scope, 'openid users:read books:write')
    })

    it('400 invalid_scope if the client no longer has any of the token’s scopes; the token is not consumed', async () => {
      const { app, config, refresh } = await granted()
      await narrow(app.id, ['reports:read'])
      await assert.rejects(openid.refreshTokenGrant(config, refresh), isScopeError)
      const used = auth.db.read.selectFrom('authRecords').select('id').where('kind', '=', 'RefreshToken')
      const payload = `%"${app.id}"%`
      assert.deepEqual(await used.where('payload', 'like', payload).where('consumedAt', 'is not', null).execute(), [])
      await narrow(app.id, ['openid'])
      assert.equal((await openid.refreshTokenGrant(config, refresh)).scope, 'openid')
    })
  })

  it('a code is redeemed only for the scopes that the client still has', async () => {
    const app = await auth.client({ firstParty: true })
    const config = await auth.relyingParty(app)
    const parameters = { redirect_uri: redirectUri, scope: 'openid users:read books:write', state: 's' }
    const back = await auth.browser().authorize(openid.buildAuthorizationUrl(config, parameters).href, auth.user)
    await narrow(app.id, ['users:read'])
    const tokens = await openid.authorizationCodeGrant(config, back, { expectedState: 's' })
    assert.deepEqual([tokens.scope, tokens.id_token], ['users:read', undefined])
  })

  describe('tokens signed with PLINTH_JWT_SHARED_SECRET', () => {
    const signed = (clientId: string, sub: string) =>
      new SignJWT({ client_id: clientId, scope: 'users:read admin', jti: randomUUID() })
        .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
        .setIssuer(auth.baseUrl)
        .setAudience(auth.baseUrl)
        .setSubject(sub)
        .setIssuedAt()
        .setExpirationTime('5m')
        .sign(Buffer.from(sharedSecret))

    it('are active at introspection and accepted by the API, for a client and for a user', async () => {
      const app = await auth.client({ scopes: ['users:read'] })
      for (const sub of [app.id, auth.user.sub]) {
        const token = await signed(app.id, sub)
        const { active, sub: subject, scope, client_id } = await introspect(token)
        assert.deepEqual([active, subject, scope, client_id], [true, sub, 'users:read', app.id])
        assert.equal(await auth.statusFor(token), 200)
      }
    })

    it('are reported as inactive and rejected by the API if their user or client is unknown, or if they were revoked', async () => {
      const app = await auth.client()
      const config = await auth.relyingParty(app)
      const revoked = await signed(app.id, auth.user.sub)
      await openid.tokenRevocation(config, revoked)
      for (const token of [await signed(app.id, '99999999'), await signed('cli_nobody', auth.user.sub), revoked]) {
        assert.deepEqual(await introspect(token), { active: false })
        assert.equal(await auth.statusFor(token), 401)
      }
    })
  })
})
