import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { describe, it } from 'node:test'
import { decodeJwt } from 'jose'
import * as openid from 'openid-client'
import type { Database } from '../../src/storage/database.ts'
import { forEachEngine } from '../support/engines.ts'
import { formAction, sentTo } from './browser.ts'
import { authService, codeFlow, codeGrants, redirectUri } from './real.ts'

const refused = (error: string) => (thrown: unknown) => {
  assert.equal((thrown as openid.ResponseBodyError).error, error)
  return true
}

/** Backdates the first use of every used refresh token, so that its grace period has ended. */
const passGrace = (db: Database) =>
  db.write((tx) =>
    tx
      .updateTable('authRecords')
      .set({ consumedAt: new Date(Date.now() - 10_500).toISOString() })
      .where('kind', '=', 'RefreshToken')
      .where('consumedAt', 'is not', null)
      .execute(),
  )

forEachEngine((engine) => {
  const auth = authService(engine)

  describe('POST /oauth/token with refresh_token', () => {
    const begun = async (scope = 'openid users:read') => {
      const config = await auth.openidClient()
      const { tokens } = await codeFlow(config, auth.browser(), auth.user, { scope })
      return { config, first: tokens.refresh_token as string, tokens }
    }

    it('200 with a new refresh token, an access token with the same scope, and an ID token', async () => {
      const { config, first, tokens } = await begun()
      const next = await openid.refreshTokenGrant(config, first)
      assert.notEqual(next.refresh_token, first)
      assert.equal(decodeJwt(next.access_token).scope, decodeJwt(tokens.access_token).scope)
      assert.equal(next.claims()?.sub, auth.user.sub)
      assert.equal(next.claims()?.auth_time, tokens.claims()?.auth_time)
      assert.equal(await auth.statusFor(next.access_token), 200)
    })

    it('200 with a narrower scope on request, 400 invalid_scope for a wider scope', async () => {
      const { config, first } = await begun()
      await assert.rejects(
        openid.refreshTokenGrant(config, first, { scope: 'users:read books:write' }),
        refused('invalid_scope'),
      )
      const next = await openid.refreshTokenGrant(config, first, { scope: 'users:read' })
      assert.equal(decodeJwt(next.access_token).scope, 'users:read')
    })

    it('T-OA-06 200 with the same new refresh token if the request is repeated within the grace period', async () => {
      const { config, first } = await begun()
      const successors = await Promise.all(Array.from({ length: 20 }, () => openid.refreshTokenGrant(config, first)))
      assert.equal(new Set(successors.map(({ refresh_token }) => refresh_token)).size, 1)
      const again = await openid.refreshTokenGrant(config, first)
      assert.equal(again.refresh_token, successors[0]?.refresh_token)
      assert.ok((await openid.refreshTokenGrant(config, again.refresh_token as string)).refresh_token)
    })

    it('T-OA-06 400 if the token is reused after the grace period; the whole token family is revoked', async () => {
      const { config, first } = await begun()
      const second = await openid.refreshTokenGrant(config, first)
      await passGrace(auth.db)
      await assert.rejects(openid.refreshTokenGrant(config, first), refused('invalid_grant'))
      await assert.rejects(openid.refreshTokenGrant(config, second.refresh_token as string), refused('invalid_grant'))
      assert.equal((await openid.tokenIntrospection(config, second.access_token)).active, false)
      assert.equal(await auth.statusFor(second.access_token), 401)
    })

    it('400 invalid_grant for another client’s token, which stays valid', async () => {
      const { config, first } = await begun()
      const thief = await auth.openidClient()
      await assert.rejects(openid.refreshTokenGrant(thief, first), refused('invalid_grant'))
      assert.ok((await openid.refreshTokenGrant(config, first)).refresh_token)
    })

    describe('lifetime of a refresh token', () => {
      const day = 86_400
      const storedToken = async (token: string) => {
        const id = hash('sha256', token, 'base64url')
        const row = await auth.db.read.selectFrom('authRecords').selectAll().where('id', '=', id).executeTakeFirst()
        return { id, expiresAt: Date.parse(row?.expiresAt ?? ''), payload: JSON.parse(row?.payload ?? '{}') }
      }
      /** Backdates a refresh token: its login time by `loginDays`, its issue and expiry times by `days`. */
      const backdate = async (token: string, loginDays: number, days: number) => {
        const { id, expiresAt: expiry, payload } = await storedToken(token)
        const { iiat, iat, exp } = payload
        const times = { iiat: iiat - loginDays * day, iat: iat - days * day, exp: exp - days * day }
        const change = {
          payload: JSON.stringify({ ...payload, ...times }),
          expiresAt: new Date(expiry - days * day * 1_000).toISOString(),
        }
        await auth.db.write((tx) => tx.updateTable('authRecords').set(change).where('id', '=', id).execute())
      }

      it('200 up to 14 days after the last refresh, then 400 invalid_grant', async () => {
        const { config, first } = await begun()
        await backdate(first, 13.9, 13.9)
        const second = (await openid.refreshTokenGrant(config, first)).refresh_token as string
        const { payload, expiresAt } = await storedToken(second)
        assert.equal(payload.exp - payload.iat, 14 * day)
        assert.ok(Math.abs(expiresAt / 1_000 - payload.exp) <= 2, `${expiresAt} ${payload.exp}`)
        await backdate(second, 14, 14)
        await assert.rejects(openid.refreshTokenGrant(config, second), refused('invalid_grant'))
      })

      it('200 with a refresh token that expires 90 days after the login, if that is less than 14 days away', async () => {
        const { config, first } = await begun()
        await backdate(first, 85, 0)
        const { payload: before } = await storedToken(first)
        const second = (await openid.refreshTokenGrant(config, first)).refresh_token as string
        const { payload } = await storedToken(second)
        assert.equal(payload.iiat, before.iiat)
        assert.equal(payload.exp, before.iiat + 90 * day)
      })
    })

    it('400 unauthorized_client for a client without the refresh_token grant; its codes yield no refresh token', async () => {
      const config = await auth.openidClient({ grants: ['authorization_code'] })
      const { tokens } = await codeFlow(config, auth.browser(), auth.user)
      assert.equal(tokens.refresh_token, undefined)
      await assert.rejects(openid.refreshTokenGrant(config, 'x'), refused('unauthorized_client'))
    })
  })

  describe('POST /oauth/token with password', () => {
    const credentials = (password = auth.user.password, username = auth.user.email) => ({ username, password })
    const ask = (config: openid.Configuration, parameters: Record<string, string>) =>
      openid.genericGrantRequest(config, 'password', parameters)
    const trusted = { grants: ['password', 'refresh_token'], redirectUris: [], trusted: true }

    it('200 for a trusted client, with tokens that work and can be refreshed', async () => {
      const config = await auth.openidClient(trusted)
      const tokens = await ask(config, { ...credentials(), scope: 'openid users:read offline_access' })
      assert.equal(await auth.statusFor(tokens.access_token), 200)
      assert.equal(tokens.claims()?.email, auth.user.email)
      assert.equal(decodeJwt(tokens.access_token).sub, auth.user.sub)
      const next = await openid.refreshTokenGrant(config, tokens.refresh_token as string)
      assert.equal(next.claims()?.name, auth.user.name)
    })

    it('200 without the scopes that the user may not grant; the response lists the granted scopes', async () => {
      const config = await auth.openidClient(trusted)
      const tokens = await ask(config, { ...credentials(), scope: 'users:read users:write admin' })
      assert.equal(tokens.scope, 'users:read')
      await assert.rejects(ask(config, { ...credentials(), scope: 'admin' }), refused('invalid_scope'))
    })

    it('200 with the scopes users:write and admin for an administrator', async () => {
      const admin = await auth.person({ role: 'admin' })
      const config = await auth.openidClient(trusted)
      const tokens = await ask(config, { ...credentials(admin.password, admin.email), scope: 'users:write admin' })
      assert.equal(tokens.scope, 'users:write admin')
    })

    it('T-AUTH-03 the same 400 for a wrong password, an unknown user and a user without a password', async () => {
      const config = await auth.openidClient(trusted)
      const { addUser } = await import('../../src/oauth/users/accounts.ts')
      await auth.db.write((tx) => addUser(tx, 'No Password', 'none@example.com', Date.now()))
      const tries = [
        credentials('wrong'),
        credentials('wrong', 'nobody@example.com'),
        credentials('x', 'none@example.com'),
      ]
      for (const wrong of tries) {
        const error = await ask(config, wrong).then(
          () => assert.fail(),
          (thrown: openid.ResponseBodyError) => thrown,
        )
        assert.deepEqual(error.cause, { error: 'invalid_grant', error_description: 'username or password is wrong' })
        assert.equal(error.status, 400)
      }
    })

    it('400 unauthorized_client for a client without the password grant, 400 invalid_request without a password', async () => {
      await assert.rejects(ask(await auth.openidClient(), credentials()), refused('unauthorized_client'))
      const config = await auth.openidClient(trusted)
      await assert.rejects(ask(config, { username: auth.user.email }), refused('invalid_request'))
    })

    it('T-AUTH-01 429 with Retry-After after five failures, even for the correct password', async () => {
      const guessed = await auth.person()
      const config = await auth.openidClient(trusted)
      const wrong = credentials('wrong', guessed.email)
      for (let n = 0; n < 5; n++) await assert.rejects(ask(config, wrong), refused('invalid_grant'))
      const right = credentials(guessed.password, guessed.email)
      const error = await ask(config, right).then(
        () => assert.fail(),
        (thrown: openid.ResponseBodyError) => thrown,
      )
      assert.deepEqual([error.status, error.error], [429, 'slow_down'])
      assert.ok(Number(error.response.headers.get('retry-after')) >= 1)
    })
  })

  describe('GET /oauth/authorize', () => {
    const authorize = (id: string, change: Record<string, string> = {}) => {
      const query = { response_type: 'id_token', client_id: id, redirect_uri: redirectUri, scope: 'openid', ...change }
      return `/oauth/authorize?${new URLSearchParams({ nonce: 'n-0S6_WzA2Mj', state: 's', ...query })}`
    }

    it('redirects with an ID token in the fragment for response_type=id_token if the client has the implicit grant', async () => {
      const app = await auth.client({ grants: ['implicit'] })
      const back = await auth.browser().authorize(authorize(app.id), auth.user)
      const answer = new URLSearchParams(back.hash.slice(1))
      assert.equal(back.search, '')
      assert.equal(answer.get('state'), 's')
      const { sub, aud, nonce, name, email } = decodeJwt(answer.get('id_token') as string)
      assert.deepEqual(
        [sub, aud, nonce, name, email],
        [auth.user.sub, app.id, 'n-0S6_WzA2Mj', auth.user.name, auth.user.email],
      )
    })

    for (const type of ['id_token', 'token', 'id_token token', 'code id_token', 'magic']) {
      it(`redirects with unsupported_response_type for "${type}" if the client does not have the implicit grant`, async () => {
        const app = await auth.client()
        const { searchParams, hash } = sentTo(await auth.browser().visit(authorize(app.id, { response_type: type })))
        const error = searchParams.get('error') ?? new URLSearchParams(hash.slice(1)).get('error')
        assert.equal(error, 'unsupported_response_type')
      })
    }

    it('redirects with unauthorized_client for response_type=code if the client does not have the code grant', async () => {
      const app = await auth.client({ grants: ['implicit'] })
      const back = sentTo(await auth.browser().visit(authorize(app.id, { response_type: 'code' })))
      assert.equal(back.searchParams.get('error'), 'unauthorized_client')
    })
  })

  describe('GET and POST /oauth/userinfo', () => {
    const urlencoded = 'application/x-www-form-urlencoded'
    const ask = async (method: 'GET' | 'POST', token: string, body?: string, type = urlencoded, query = '') => {
      const { request } = await import('undici')
      const form = body === undefined ? {} : { 'content-type': type }
      const headers = { ...(token && { authorization: `Bearer ${token}` }), ...form }
      const url = `${auth.baseUrl}/oauth/userinfo${query}`
      const answer = await request(url, { method, headers, body, dispatcher: auth.agent })
      return { status: answer.statusCode, headers: answer.headers, body: (await answer.body.json()) as object }
    }
    const tokenFor = async (scope: string) => {
      const config = await auth.openidClient()
      return (await codeFlow(config, auth.browser(), auth.user, { scope })).tokens.access_token
    }

    it('200 with the claims for the granted scopes and Cache-Control: no-store', async () => {
      const token = await tokenFor('openid email')
      for (const answer of [await ask('GET', token), await ask('POST', token), await ask('POST', token, 'a=b')]) {
        assert.deepEqual([answer.status, answer.body], [200, { sub: auth.user.sub, email: auth.user.email }])
        assert.equal(answer.headers['cache-control'], 'no-store')
      }
      assert.deepEqual((await ask('GET', await tokenFor('openid'))).body, { sub: auth.user.sub })
    })

    it('401 without a token and for a token not issued to a user, 403 without the openid scope', async () => {
      const { error_description: _, ...rest } = (await ask('GET', '')).body as Record<string, string>
      assert.deepEqual([(await ask('GET', '')).status, rest], [401, {}])
      const { status, headers } = await ask('GET', await tokenFor('users:read'))
      assert.equal(status, 403)
      assert.match(String(headers['www-authenticate']), /error="insufficient_scope", scope="openid"/)
      const machine = await auth.openidClient({ grants: ['client_credentials'], redirectUris: [] })
      const { access_token } = await openid.clientCredentialsGrant(machine, { scope: 'openid' })
      assert.equal((await ask('GET', access_token)).status, 401)
    })

    it('400 invalid_request for a token in two places or a body that is not a form; 413 for a large body', async () => {
      const token = await tokenFor('openid')
      const wrong = [
        await ask('GET', token, undefined, undefined, `?access_token=${token}`),
        await ask('POST', token, `access_token=${token}`),
        await ask('POST', token, `access_token=${token}`, 'text/plain'),
        await ask('POST', token, '{}', 'application/json'),
        await ask('POST', token, '{}', 'application/xml'),
      ]
      for (const { status, headers, body } of wrong) {
        assert.deepEqual([status, (body as { error?: string }).error], [400, 'invalid_request'])
        assert.match(String(headers['www-authenticate']), /error="invalid_request"/)
      }
      const large = await ask('POST', token, 'x'.repeat(60_000))
      assert.deepEqual([large.status, (large.body as { error?: string }).error], [413, 'invalid_request'])
    })
  })

  describe('revocation and logout', () => {
    const flow = async (one = auth.browser(), person = auth.user, scope = 'openid users:read') => {
      const app = await auth.client({ postLogoutRedirectUris: ['https://app.example/bye'] })
      const config = await auth.relyingParty(app)
      return { app, config, one, ...(await codeFlow(config, one, person, { scope })) }
    }
    const refresh = (config: openid.Configuration, { refresh_token }: openid.TokenEndpointResponse) =>
      openid.refreshTokenGrant(config, refresh_token as string)

    it('revoking the refresh token revokes every token of the grant', async () => {
      const { config, tokens } = await flow()
      await openid.tokenRevocation(config, tokens.refresh_token as string)
      await assert.rejects(refresh(config, tokens), refused('invalid_grant'))
      assert.equal((await openid.tokenIntrospection(config, tokens.access_token)).active, false)
    })

    it('T-AUTH-07 setting a new password ends the user’s sessions and revokes the user’s tokens', async () => {
      const changing = await auth.person()
      const { config, tokens, one, app } = await flow(auth.browser(), changing)
      const { setPasswordHash } = await import('../../src/oauth/users/accounts.ts')
      await auth.db.write((tx) => setPasswordHash(tx, changing.userId, 'any', Date.now()))
      await assert.rejects(refresh(config, tokens), refused('invalid_grant'))
      assert.equal(await auth.statusFor(tokens.access_token), 401)
      const query = {
        response_type: 'code',
        client_id: app.id,
        redirect_uri: redirectUri,
        scope: 'openid',
        prompt: 'none',
      }
      const back = sentTo(await one.visit(`/oauth/authorize?${new URLSearchParams(query)}`))
      assert.equal(back.searchParams.get('error'), 'login_required')
    })

    it('deleting a user revokes all of the user’s tokens', async () => {
      const leaving = await auth.person()
      const { config, tokens } = await flow(auth.browser(), leaving)
      await auth.db.write((tx) => tx.deleteFrom('users').where('id', '=', leaving.userId).execute())
      await assert.rejects(refresh(config, tokens), refused('invalid_grant'))
      assert.equal((await openid.tokenIntrospection(config, tokens.access_token)).active, false)
      assert.equal(await auth.statusFor(tokens.access_token), 401)
      const left = await auth.db.read
        .selectFrom('authRecords')
        .select('id')
        .where('userId', '=', leaving.userId)
        .execute()
      assert.deepEqual(left, [])
    })

    it('logging out through the app asks for confirmation, redirects to the app and revokes the refresh token', async () => {
      const { config, tokens, one } = await flow()
      const url = openid.buildEndSessionUrl(config, {
        post_logout_redirect_uri: 'https://app.example/bye',
        id_token_hint: tokens.id_token as string,
        state: 'later',
      })
      const page = await one.visit(url.href)
      assert.match(page.text, /Sign out\?/)
      assert.match(String(page.headers['content-security-policy']), /form-action 'self' https:\/\/app\.example;/)
      const [, xsrf = ''] = /name="xsrf" value="(\w+)"/.exec(page.text) ?? []
      const back = sentTo(await one.visit('/oauth/logout/confirm', { xsrf, logout: 'yes' }))
      assert.equal(back.href, 'https://app.example/bye?state=later')
      await assert.rejects(refresh(config, tokens), refused('invalid_grant'))
    })

    it('logging out does not revoke access granted with offline_access', async () => {
      const app = await auth.client()
      const config = await auth.relyingParty(app)
      const one = auth.browser()
      const scope = 'openid users:read offline_access'
      const { tokens } = await codeFlow(config, one, auth.user, { scope, parameters: { prompt: 'consent' } })
      const page = await one.visit('/oauth/logout')
      const [, xsrf = ''] = /name="xsrf" value="(\w+)"/.exec(page.text) ?? []
      assert.match((await one.visit('/oauth/logout/confirm', { xsrf, logout: 'yes' })).text, /You are signed out/)
      assert.ok((await refresh(config, tokens)).access_token)
    })

    describe('logging out without being logged in', () => {
      const bye = 'https://app.example/bye'

      it('200 with a script-free page that says that the user is signed out', async () => {
        for (const query of ['', `?${new URLSearchParams({ post_logout_redirect_uri: bye })}`]) {
          const page = await auth.browser().once(`${auth.baseUrl}/oauth/logout${query}`)
          assert.equal(page.status, 200)
          assert.match(page.text, /<h1>You are signed out<\/h1>/)
          assert.doesNotMatch(page.text, /<(script|form)/)
          assert.match(String(page.headers['content-security-policy']), /^default-src 'none'; style-src 'sha256-/)
        }
      })

      it('303 to a registered URI, with the state', async () => {
        const { config, tokens, app } = await flow()
        const hinted = { id_token_hint: tokens.id_token as string, post_logout_redirect_uri: bye, state: 'a&b' }
        const back = await auth.browser().once(openid.buildEndSessionUrl(config, hinted).href)
        assert.deepEqual([back.status, back.headers.location], [303, `${bye}?state=a%26b`])
        assert.doesNotMatch(back.text, /<script/)
        const named = new URLSearchParams({ client_id: app.id, post_logout_redirect_uri: bye })
        const plain = await auth.browser().once(`${auth.baseUrl}/oauth/logout?${named}`)
        assert.deepEqual([plain.status, plain.headers.location], [303, bye])
      })

      it('400 for an unregistered URI', async () => {
        const { app } = await flow()
        const query = new URLSearchParams({ client_id: app.id, post_logout_redirect_uri: 'https://evil.example/' })
        const page = await auth.browser().once(`${auth.baseUrl}/oauth/logout?${query}`)
        assert.deepEqual([page.status, page.headers.location], [400, undefined])
      })
    })

    it('T-OA-12 400 for a logout confirmation without the page’s anti-CSRF token; the user’s tokens stay valid', async () => {
      const { config, tokens, one } = await flow()
      await one.visit('/oauth/logout')
      for (const form of [{ logout: 'yes' }, { logout: 'yes', xsrf: 'guessed' }] as Record<string, string>[]) {
        assert.equal((await one.visit('/oauth/logout/confirm', form)).status, 400)
      }
      assert.ok((await refresh(config, tokens)).access_token)
    })
  })

  it('client_credentials works for a client that also has the code grant', async () => {
    const config = await auth.openidClient({ grants: [...codeGrants, 'client_credentials'] })
    const { access_token } = await openid.clientCredentialsGrant(config, { scope: 'users:read' })
    assert.equal(await auth.statusFor(access_token), 200)
  })

  it('GET /oauth/authorize for a first-party app shows the login page, or issues a code if the user is logged in', async () => {
    const app = await auth.client({ firstParty: true })
    const one = auth.browser()
    const query = { response_type: 'code', client_id: app.id, redirect_uri: redirectUri, scope: 'openid', state: 'x' }
    const url = `/oauth/authorize?${new URLSearchParams(query)}`
    const page = await one.visit(url)
    assert.ok(formAction(page, 'login'))
    const back = sentTo(await one.logIn(page, auth.user))
    assert.deepEqual([...back.searchParams.keys()], ['code', 'state', 'iss'])
    assert.ok(sentTo(await one.visit(url)).searchParams.get('code'))
  })
})
