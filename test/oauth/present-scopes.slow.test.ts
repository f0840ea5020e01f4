import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { decodeJwt, SignJWT } from 'jose'
import * as openid from 'openid-client'
import { request } from 'undici'
import { operator } from '../../src/audit/chain.ts'
import { builtIn } from '../../src/catalog/service.ts'
import { revokeClient, updateClient } from '../../src/oauth/clients/update.ts'
import { forEachEngine } from '../support/engines.ts'
import {
  browser,
  client,
  codeFlow,
  type Person,
  person,
  type Real,
  realServer,
  redirectUri,
  relyingParty,
  through,
} from './real.ts'

const sharedSecret = 'a shared secret of thirty-two bytes, or more'

forEachEngine((engine) => {
  let real: Real
  let who: Person
  /** Another client, such as a gateway. */
  let asking: openid.Configuration
  before(async () => {
    real = await realServer(engine, { PLINTH_JWT_SHARED_SECRET: sharedSecret })
    who = await person(real)
    const machine = await client(real, { grants: ['client_credentials'], redirectUris: [], introspectsOthers: true })
    asking = await relyingParty(real, machine)
  })
  after(() => real.close())

  const granted = async (scope = 'openid users:read books:write') => {
    const app = await client(real, { grants: ['authorization_code', 'refresh_token', 'client_credentials'] })
    const config = await relyingParty(real, app)
    const { tokens } = await codeFlow(config, browser(real), who, { scope })
    const own = await openid.clientCredentialsGrant(config, { scope: 'users:read books:write' })
    return { app, config, tokens, refresh: tokens.refresh_token as string, own: own.access_token }
  }
  const change = () => ({ db: real.db, sealer: real.sealer, actor: operator })
  const narrow = (id: string, scopes: string[]) => updateClient(change(), builtIn.scopes, id, { scopes })
  const introspect = (token: string) => openid.tokenIntrospection(asking, token)

  describe('POST /oauth/introspect', () => {
    it('inactive: every token of a deleted client', async () => {
      const { app, tokens, refresh, own } = await granted()
      await revokeClient(change(), app.id)
      for (const token of [tokens.access_token, refresh, own]) {
        assert.deepEqual(await introspect(token), { active: false })
      }
    })

    it('the scopes that the client still has', async () => {
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

    it('200 with the scopes that the client still has, and with all of them once restored', async () => {
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

    it('400 invalid_scope if none is left; the token is not consumed', async () => {
      const { app, config, refresh } = await granted()
      await narrow(app.id, ['reports:read'])
      await assert.rejects(openid.refreshTokenGrant(config, refresh), isScopeError)
      const used = real.db.read.selectFrom('authRecords').select('id').where('kind', '=', 'RefreshToken')
      const payload = `%"${app.id}"%`
      assert.deepEqual(await used.where('payload', 'like', payload).where('consumedAt', 'is not', null).execute(), [])
      await narrow(app.id, ['openid'])
      assert.equal((await openid.refreshTokenGrant(config, refresh)).scope, 'openid')
    })
  })

  it('a code is also redeemed only for the scopes that the client still has', async () => {
    const app = await client(real, { firstParty: true })
    const config = await relyingParty(real, app)
    const parameters = { redirect_uri: redirectUri, scope: 'openid users:read books:write', state: 's' }
    const back = await through(browser(real), openid.buildAuthorizationUrl(config, parameters).href, who)
    await narrow(app.id, ['users:read'])
    const tokens = await openid.authorizationCodeGrant(config, back, { expectedState: 's' })
    assert.deepEqual([tokens.scope, tokens.id_token], ['users:read', undefined])
  })

  describe('tokens under PLINTH_JWT_SHARED_SECRET', () => {
    const signed = (clientId: string, sub: string) =>
      new SignJWT({ client_id: clientId, scope: 'users:read admin', jti: randomUUID() })
        .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
        .setIssuer(real.baseUrl)
        .setAudience(real.baseUrl)
        .setSubject(sub)
        .setIssuedAt()
        .setExpirationTime('5m')
        .sign(Buffer.from(sharedSecret))
    const api = async (token: string) => {
      const headers = { authorization: `Bearer ${token}` }
      const answer = await request(`${real.baseUrl}/users`, { headers, dispatcher: real.agent })
      await answer.body.dump()
      return answer.statusCode
    }

    it('active if the API accepts them: of a client, and of a user', async () => {
      const app = await client(real, { scopes: ['users:read'] })
      for (const sub of [app.id, who.sub]) {
        const token = await signed(app.id, sub)
        const { active, sub: told, scope, client_id } = await introspect(token)
        assert.deepEqual([active, told, scope, client_id], [true, sub, 'users:read', app.id])
        assert.equal(await api(token), 200)
      }
    })

    it('inactive if it does not: without a subject, of an unknown client, and once revoked', async () => {
      const app = await client(real)
      const config = await relyingParty(real, app)
      const revoked = await signed(app.id, who.sub)
      await openid.tokenRevocation(config, revoked)
      for (const token of [await signed(app.id, '99999999'), await signed('cli_nobody', who.sub), revoked]) {
        assert.deepEqual(await introspect(token), { active: false })
        assert.equal(await api(token), 401)
      }
    })
  })
})
