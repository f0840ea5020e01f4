import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as openid from 'openid-client'
import { openAccount } from '../../src/oauth/users/accounts.ts'
import { forEachEngine } from '../support/engines.ts'
import { eventually } from '../support/service.ts'
import { type Browser, formAction, sentTo } from './browser.ts'
import { authService, codeFlow, codeGrants, redirectUri } from './real.ts'
import { basic } from './support.ts'

/** The number of rounds, each with 50 concurrent redemptions; set ROUNDS to change it. */
const rounds = Number(process.env.ROUNDS ?? 10)
const native = 'http://127.0.0.1/cb'
const verifier = 'v'.repeat(43)

forEachEngine((engine) => {
  const auth = authService(engine)

  type Parameters = Record<string, string>
  const authorizeUrl = (id: string, change: Parameters = {}) => {
    const query = {
      response_type: 'code',
      client_id: id,
      redirect_uri: redirectUri,
      scope: 'openid',
      state: 's',
      ...change,
    }
    return `/oauth/authorize?${new URLSearchParams(query)}`
  }
  const token = async (form: Parameters | [string, string][], headers: Parameters = {}, path = '/oauth/token') => {
    const { status, text } = await auth.postForm(path, form, headers)
    return { status, body: JSON.parse(text) as Record<string, string> }
  }
  const challenge = () => openid.calculatePKCECodeChallenge(verifier)
  /** Prepares a logged-in browser and a client that needs no consent; each visit then yields a code. */
  const ready = async (change: Parameters = {}, wanted = {}) => {
    const app = await auth.client({ firstParty: true, ...wanted })
    const one = auth.browser()
    const begin = async (more: Parameters = {}) => sentTo(await one.visit(authorizeUrl(app.id, { ...change, ...more })))
    await one.logIn(await one.visit(authorizeUrl(app.id, change)), auth.user)
    const code = async (more?: Parameters) => (await begin(more)).searchParams.get('code') as string
    const credentials = { client_id: app.id, ...(app.secret && { client_secret: app.secret }) }
    const redeem = (form: Parameters) =>
      token({ grant_type: 'authorization_code', redirect_uri: redirectUri, ...credentials, ...form })
    return { app, one, begin, code, redeem }
  }

  describe('T-OA-01 400 without a redirect for an unregistered redirect_uri', () => {
    const registered = 'https://app.example/cb'
    const wrong = [
      'https://app.example/cb/',
      'https://app.example/cb2',
      'https://app.example/cb/../x',
      'https://app.example/CB',
      'https://app.example/',
      'https://app.example',
      'https://app.example/cb?a=b',
      'https://app.example/cb?',
      'https://app.example/cb#',
      'https://app.example/cb#x',
      'https://app.example/%63b',
      'https://app.example:443/cb',
      'https://app.example:8443/cb',
      'https://APP.example/cb',
      'HTTPS://app.example/cb',
      'http://app.example/cb',
      '//app.example/cb',
      '/cb',
      'https:/app.example/cb',
      'https:app.example/cb',
      'https:\\\\app.example\\cb',
      'https://app.example//cb',
      'https://app.example/cb\n',
      ' https://app.example/cb',
      'https://app.example/cb%0d%0aLocation:%20https://evil.example',
      'https://user@app.example/cb',
      'https://app.example@evil.example/cb',
      'https://app.example.evil.example/cb',
      'https://evil.example/https://app.example/cb',
      'https://sub.app.example/cb',
      'https://evil.example/cb',
      'https://localhost/cb',
      'https://127.0.0.1/cb',
      'https://*.example/cb',
      'https://app.example/*',
      'javascript:alert(1)',
      'data:text/html,x',
      'com.example.app:/cb',
      'x',
      '',
    ]
    it(`for ${wrong.length} URIs that differ from the registered one, and for a missing redirect_uri`, async () => {
      const app = await auth.client({ redirectUris: [registered] })
      for (const uri of wrong) {
        const page = await auth.browser().visit(authorizeUrl(app.id, { redirect_uri: uri }))
        assert.deepEqual([page.status, page.headers.location], [400, undefined], uri)
      }
      const { redirect_uri: _, ...rest } = Object.fromEntries(new URL(authorizeUrl(app.id), auth.baseUrl).searchParams)
      const without = await auth.browser().visit(`/oauth/authorize?${new URLSearchParams(rest)}`)
      assert.deepEqual([without.status, without.headers.location], [400, undefined])
    })

    it('except for a loopback address that differs only in its port (RFC 8252 §7.3)', async () => {
      const app = await auth.client({ redirectUris: [native], secret: null })
      const pkce = { code_challenge: await challenge(), code_challenge_method: 'S256' }
      const statusOf = async (uri: string) =>
        (await auth.browser().visit(authorizeUrl(app.id, { ...pkce, redirect_uri: uri }))).status
      for (const uri of ['http://127.0.0.1:50000/cb', 'http://127.0.0.1:1/cb', native])
        assert.equal(await statusOf(uri), 200)
      for (const uri of [
        'http://localhost/cb',
        'http://[::1]/cb',
        'http://127.0.0.1:50000/cb2',
        'http://127.0.0.1:5x/cb',
        'http://127.0.0.1@evil.example/cb',
        'http://127.0.0.1.evil.example/cb',
        'https://127.0.0.1/cb',
      ]) {
        assert.equal(await statusOf(uri), 400, uri)
      }
    })
  })

  describe('T-OA-02 PKCE', () => {
    it('invalid_request for a public client without a valid challenge', async () => {
      const app = await auth.client({ secret: null })
      const wrong: Parameters[] = [
        {},
        { code_challenge: 'short', code_challenge_method: 'S256' },
        { code_challenge: verifier, code_challenge_method: 'plain' },
        { code_challenge: verifier },
        { code_challenge_method: 'S256' },
      ]
      for (const change of wrong) {
        const back = sentTo(await auth.browser().visit(authorizeUrl(app.id, change)))
        assert.equal(back.searchParams.get('error'), 'invalid_request')
        assert.equal(back.searchParams.get('state'), 's')
      }
    })

    it('invalid_grant for a wrong, missing or unexpected verifier', async () => {
      const pkce = { code_challenge: await challenge(), code_challenge_method: 'S256' }
      const proved = await ready(pkce, { secret: null })
      for (const form of [
        { code_verifier: 'w'.repeat(43) },
        {},
        { code_verifier: pkce.code_challenge },
      ] as Parameters[]) {
        const { status, body } = await proved.redeem({ code: await proved.code(), ...form })
        assert.deepEqual([status, body.error], [400, 'invalid_grant'])
      }
      assert.equal((await proved.redeem({ code: await proved.code(), code_verifier: verifier })).status, 200)
      const plain = await ready()
      const downgraded = await plain.redeem({ code: await plain.code(), code_verifier: verifier })
      assert.deepEqual([downgraded.status, downgraded.body.error], [400, 'invalid_grant'])
    })

    it('invalid_grant for a verifier that belongs to a different code', async () => {
      const pkce = { code_challenge: await challenge(), code_challenge_method: 'S256' }
      const { code, redeem } = await ready(pkce, { secret: null })
      const other = await openid.calculatePKCECodeChallenge('o'.repeat(43))
      const stolen = await code({ code_challenge: other, code_challenge_method: 'S256' })
      assert.equal((await redeem({ code: stolen, code_verifier: verifier })).body.error, 'invalid_grant')
    })
  })

  it('T-OA-03 400 without a redirect for an unregistered post-logout URI', async () => {
    const app = await auth.client({ postLogoutRedirectUris: ['https://app.example/bye'] })
    const wrong = ['https://evil.example/', 'https://app.example/bye/', 'https://app.example/bye?x=1', redirectUri]
    for (const uri of wrong) {
      const query = new URLSearchParams({ client_id: app.id, post_logout_redirect_uri: uri })
      const page = await auth.browser().visit(`/oauth/logout?${query}`)
      assert.deepEqual([page.status, page.headers.location], [400, undefined])
    }
    const unnamed = await auth.browser().visit('/oauth/logout?post_logout_redirect_uri=https://evil.example/')
    assert.ok(!unnamed.text.includes('evil.example'))
  })

  it('T-OA-04 authorization responses contain iss, both on success and on error (RFC 9207)', async () => {
    const { app, one, begin } = await ready()
    assert.equal((await begin()).searchParams.get('iss'), auth.baseUrl)
    const failed = sentTo(await one.visit(authorizeUrl(app.id, { scope: 'openid reports:burn', response_type: 'x' })))
    assert.equal(failed.searchParams.get('iss'), auth.baseUrl)
  })

  it(`T-OA-05 exactly one of 50 concurrent redemptions of a code succeeds, in each of ${rounds} rounds`, async () => {
    const { code, redeem } = await ready({ scope: 'users:read' })
    for (let round = 0; round < rounds; round++) {
      const form = { code: await code() }
      const answers = await Promise.all(Array.from({ length: 50 }, () => redeem(form)))
      assert.equal(answers.filter(({ status }) => status === 200).length, 1)
      const refused = answers.filter(({ status }) => status !== 200)
      // A 503 from an overloaded database says nothing about the code, so the client may retry.
      const isRefusal = ({ status, body }: (typeof refused)[0]) =>
        (status === 400 && body.error === 'invalid_grant') ||
        (status === 503 && body.error === 'temporarily_unavailable')
      assert.deepEqual(
        refused.filter((response) => !isRefusal(response)),
        [],
      )
    }
  })

  it('T-OA-05 invalid_grant for a reused code; the tokens issued for it are revoked', async () => {
    const { app, code, redeem } = await ready()
    const form = { code: await code() }
    const { body } = await redeem(form)
    assert.equal((await redeem(form)).body.error, 'invalid_grant')
    const config = await auth.relyingParty(app)
    assert.equal((await openid.tokenIntrospection(config, body.access_token as string)).active, false)
    const { status } = await token(
      { grant_type: 'refresh_token', refresh_token: body.refresh_token as string },
      basic(app.id, app.secret as string),
    )
    assert.equal(status, 400)
  })

  describe('T-OA-07 a stolen code', () => {
    it('400 invalid_grant for a different client, and for a different redirect_uri', async () => {
      const { code, redeem } = await ready()
      const thief = await auth.client()
      const stolen = { client_id: thief.id, client_secret: thief.secret as string, code: await code() }
      assert.equal((await redeem(stolen)).body.error, 'invalid_grant')
      assert.equal((await redeem({ code: await code(), redirect_uri: `${redirectUri}2` })).body.error, 'invalid_grant')
      assert.equal((await redeem({ code: 'never' })).body.error, 'invalid_grant')
    })

    it('400 invalid_request without the authorization request’s redirect_uri (RFC 6749 §4.1.3)', async () => {
      const { app, code } = await ready()
      const form = { grant_type: 'authorization_code', client_id: app.id, client_secret: app.secret as string }
      const { status, body } = await token({ ...form, code: await code() })
      assert.deepEqual([status, body.error], [400, 'invalid_request'])
    })

    it('401 for a wrong secret, for a missing secret, and for a secret sent by a public client', async () => {
      const { app, code, redeem } = await ready()
      const open = await auth.client({ secret: null })
      const form = { grant_type: 'authorization_code', redirect_uri: redirectUri, code: await code() }
      assert.equal((await redeem({ ...form, client_secret: 'wrong' })).status, 401)
      assert.equal((await token({ ...form, client_id: app.id })).status, 401)
      assert.equal((await token({ ...form, client_id: open.id, client_secret: 'any' })).status, 401)
    })

    it('401 for credentials in the query, 400 for credentials in both the header and the body', async () => {
      const { app, code } = await ready()
      const form = { grant_type: 'authorization_code', redirect_uri: redirectUri, code: await code() }
      const credentials = { client_id: app.id, client_secret: app.secret as string }
      const inAddress = await token(form, {}, `/oauth/token?${new URLSearchParams(credentials)}`)
      assert.equal(inAddress.status, 401)
      assert.equal((await token({ ...form, ...credentials }, basic(app.id, app.secret as string))).status, 400)
    })
  })

  it('T-OA-09 401 for a client assertion instead of a secret', async () => {
    const { id } = await auth.client({ grants: ['client_credentials'], redirectUris: [] })
    const { status } = await token({
      grant_type: 'client_credentials',
      client_id: id,
      client_assertion: 'e30.e30.',
      client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
    })
    assert.equal(status, 401)
  })

  describe('T-OA-10 attacks on the login and consent pages', () => {
    const session = (one: Browser) => one.jar.get('__Host-plinth_session /')?.value

    it('the session id changes at each login', async () => {
      const app = await auth.client()
      const one = auth.browser()
      await one.decide(await one.logIn(await one.visit(authorizeUrl(app.id)), auth.user), 'allow')
      const planted = session(one)
      assert.ok(planted)
      await one.logIn(await one.visit(authorizeUrl(app.id, { prompt: 'login' })), auth.user)
      assert.notEqual(session(one), planted)
    })

    it('400 for an interaction without its cookie, with another interaction’s cookie or with a forged cookie', async () => {
      const app = await auth.client()
      const [one, other] = [auth.browser(), auth.browser()]
      const page = await one.visit(authorizeUrl(app.id))
      const elsewhere = await other.visit(authorizeUrl(app.id))
      const form = { email: auth.user.email, password: auth.user.password }
      assert.equal((await auth.browser().visit(formAction(page, 'login'), form)).status, 400)
      const foreign = [...other.jar].find(([key]) => key.startsWith('__Secure-plinth_interaction '))?.[1].value ?? ''
      const uid = formAction(page, 'login').split('/').at(-2) as string
      const cookie = `__Secure-plinth_interaction=${foreign}`
      const forged = `__Secure-plinth_interaction=${uid}; __Secure-plinth_interaction.sig=AAAAAAAAAAAAAAAAAAAAAAAAAAA`
      for (const sent of [cookie, forged]) {
        const { status } = await auth.browser().visit(formAction(page, 'login'), form, { cookie: sent })
        assert.equal(status, 400)
      }
      assert.equal(elsewhere.status, 200)
    })

    it('403 for a form from another site, 405 for a login with GET', async () => {
      const app = await auth.client()
      const one = auth.browser()
      const action = formAction(await one.visit(authorizeUrl(app.id)), 'login')
      const form = { email: auth.user.email, password: auth.user.password }
      assert.equal((await one.visit(action, form, { 'sec-fetch-site': 'cross-site' })).status, 403)
      assert.equal((await one.visit(`${action}?${new URLSearchParams(form)}`)).status, 405)
    })

    it('400 for the consent form of a finished interaction', async () => {
      const app = await auth.client()
      const one = auth.browser()
      const page = await one.logIn(await one.visit(authorizeUrl(app.id)), auth.user)
      const savedCookies = new Map(one.jar)
      assert.ok(sentTo(await one.decide(page, 'allow')).searchParams.get('code'))
      for (const [key, value] of savedCookies) if (key.includes('interaction')) one.jar.set(key, value)
      assert.equal((await one.decide(page, 'allow')).status, 400)
    })

    it('pages cannot be cached, framed or scripted; forms go only to this service or to the client', async () => {
      const app = await auth.client()
      const one = auth.browser()
      const login = await one.visit(authorizeUrl(app.id))
      const consent = await one.logIn(login, auth.user)
      const logout = await one.visit('/oauth/logout')
      const failed = await one.visit(authorizeUrl('nobody'))
      const invitation = await one.visit('/oauth/invitation?token=x')
      for (const { headers, text } of [login, consent, logout, failed, invitation]) {
        const policy = String(headers['content-security-policy'])
        assert.match(
          policy,
          /^default-src 'none'; style-src 'sha256-[\w+/=]+'; form-action 'self'[^;]*; base-uri 'none'; frame-ancestors 'none'$/,
        )
        assert.equal(headers['cache-control'], 'no-store')
        assert.equal(headers['x-content-type-options'], 'nosniff')
        assert.equal(headers['referrer-policy'], 'no-referrer')
        assert.ok(!/<script|javascript:| on\w+=/i.test(text))
      }
      for (const page of [login, consent]) {
        assert.match(String(page.headers['content-security-policy']), /form-action 'self' https:\/\/app\.example;/)
      }
    })

    it('cookies are Secure, HttpOnly and SameSite=Lax, and have a __Host- or __Secure- prefix', async () => {
      const app = await auth.client()
      const one = auth.browser()
      const { headers } = await one.once(auth.baseUrl + authorizeUrl(app.id))
      const lines = [headers['set-cookie'] ?? []].flat()
      assert.ok(lines.length >= 2)
      for (const line of lines) assert.match(line, /^__(Secure|Host)-.*; path=\/.*; secure; httponly/i)
      for (const line of lines) assert.match(line, /samesite=lax/i)
    })
  })

  it('T-OA-11 303 after every form, so that the browser does not resend the password', async () => {
    const app = await auth.client()
    const one = auth.browser()
    const login = await one.visit(authorizeUrl(app.id))
    const { status, headers } = await one.once(auth.baseUrl + formAction(login, 'login'), {
      email: auth.user.email,
      password: auth.user.password,
    })
    assert.equal(status, 303)
    const consent = await one.visit(String(headers.location))
    const decided = await one.once(auth.baseUrl + formAction(consent, 'consent'), { decision: 'allow' })
    assert.equal(decided.status, 303)
    const back = await one.once(String(decided.headers.location))
    assert.equal(back.status, 303)
    assert.ok(sentTo(back).searchParams.get('code'))
  })

  describe('T-OA-12 GET /oauth/authorize', () => {
    it('login_required or consent_required with prompt=none, or a code if neither is required', async () => {
      const app = await auth.client()
      const one = auth.browser()
      const none = async () => sentTo(await one.visit(authorizeUrl(app.id, { prompt: 'none' }))).searchParams
      assert.equal((await none()).get('error'), 'login_required')
      const page = await one.logIn(await one.visit(authorizeUrl(app.id)), auth.user)
      assert.equal((await none()).get('error'), 'consent_required')
      await one.decide(page, 'allow')
      assert.ok((await none()).get('code'))
    })

    it('requires a new login with prompt=login and with max_age=0, but not with a large max_age', async () => {
      const { app, one } = await ready()
      for (const change of [{ prompt: 'login' }, { max_age: '0' }] as Parameters[]) {
        assert.ok(formAction(await one.visit(authorizeUrl(app.id, change)), 'login'))
      }
      assert.ok(sentTo(await one.visit(authorizeUrl(app.id, { max_age: '10000' }))).searchParams.get('code'))
    })

    it('login_required for a user other than the user in id_token_hint (OpenID Connect Core §3.1.2.1)', async () => {
      const app = await auth.client({ firstParty: true })
      const root = await auth.person()
      const one = auth.browser()
      const { tokens } = await codeFlow(await auth.relyingParty(app), one, auth.user)
      const hinted = (change: Parameters = {}) =>
        authorizeUrl(app.id, { id_token_hint: tokens.id_token as string, ...change })
      assert.ok(sentTo(await one.visit(hinted({ prompt: 'none' }))).searchParams.get('code'))
      const other = auth.browser()
      const instead = sentTo(await other.logIn(await other.visit(hinted()), root)).searchParams
      assert.deepEqual([instead.get('error'), instead.get('code')], ['login_required', null])
      assert.equal(sentTo(await other.visit(hinted({ prompt: 'none' }))).searchParams.get('error'), 'login_required')
      const right = auth.browser()
      assert.ok(sentTo(await right.logIn(await right.visit(hinted()), auth.user)).searchParams.get('code'))
    })

    it('asks for consent again with prompt=consent or additional scopes, but not for scopes already granted', async () => {
      const app = await auth.client()
      const one = auth.browser()
      await one.decide(
        await one.logIn(await one.visit(authorizeUrl(app.id, { scope: 'openid users:read' })), auth.user),
        'allow',
      )
      assert.ok(formAction(await one.visit(authorizeUrl(app.id, { prompt: 'consent' })), 'consent'))
      assert.ok(formAction(await one.visit(authorizeUrl(app.id, { scope: 'openid reports:read' })), 'consent'))
      const later = auth.browser()
      const back = await later.logIn(await later.visit(authorizeUrl(app.id)), auth.user)
      assert.ok(sentTo(back).searchParams.get('code'))
    })

    it('access_denied if the user denies consent or cancels the login', async () => {
      const app = await auth.client()
      const one = auth.browser()
      const login = await one.visit(authorizeUrl(app.id))
      const cancelled = sentTo(await one.visit(formAction(login, 'cancel'), {})).searchParams
      assert.deepEqual([cancelled.get('error'), cancelled.get('state')], ['access_denied', 's'])
      const page = await one.logIn(await one.visit(authorizeUrl(app.id)), auth.user)
      assert.equal(sentTo(await one.decide(page, 'deny')).searchParams.get('error'), 'access_denied')
    })

    it('neither shows nor grants scopes that the user may not grant', async () => {
      const app = await auth.client()
      const config = await auth.relyingParty(app)
      const one = auth.browser()
      const page = await one.logIn(
        await one.visit(authorizeUrl(app.id, { scope: 'openid users:read admin' })),
        auth.user,
      )
      assert.ok(page.text.includes('See users') && !page.text.includes('Administer the service'))
      await one.decide(page, 'allow')
      const { tokens } = await codeFlow(config, one, auth.user, { scope: 'openid users:read admin' })
      assert.equal(tokens.scope, 'openid users:read')
      const other = await auth.client()
      for (const { id } of [app, other]) {
        const refused = sentTo(await one.visit(authorizeUrl(id, { scope: 'admin' }))).searchParams
        assert.equal(refused.get('error'), 'access_denied')
      }
    })
  })

  describe('T-OA-12 consent', () => {
    const scope = 'openid admin users:write'
    it('is requested again only when a promotion lets the user grant more of the requested scopes', async () => {
      const bob = await auth.person()
      const app = await auth.client()
      const config = await auth.relyingParty(app)
      const { tokens } = await codeFlow(config, auth.browser(), bob, { scope })
      assert.equal(tokens.scope, 'openid')
      const one = auth.browser()
      assert.ok(sentTo(await one.logIn(await one.visit(authorizeUrl(app.id, { scope })), bob)).searchParams.get('code'))
      await auth.db.write((tx) => openAccount(tx, bob.userId, 'admin', Date.now()))
      const later = auth.browser()
      const page = await later.logIn(await later.visit(authorizeUrl(app.id, { scope })), bob)
      assert.ok(formAction(page, 'consent') && page.text.includes('Administer the service'))
      assert.equal((await codeFlow(config, later, bob, { scope })).tokens.scope, 'openid admin users:write')
    })

    it('is audited with the scopes that were granted or denied, not with all requested scopes', async () => {
      const app = await auth.client()
      const one = auth.browser()
      const page = await one.logIn(await one.visit(authorizeUrl(app.id, { scope })), auth.user)
      await one.decide(page, 'deny')
      await one.decide(await one.visit(authorizeUrl(app.id, { scope })), 'allow')
      const events = ['consent.denied', 'consent.granted'] as const
      const details = await eventually('two entries', async () => {
        const rows = auth.db.read.selectFrom('auditEntries').select('details').where('clientId', '=', app.id)
        const found = await rows.where('event', 'in', events).execute()
        return found.length === 2 && found
      })
      assert.deepEqual(new Set(details.map((row) => row.details)), new Set(['{"scopes":["openid"]}']))
    })
  })

  describe('T-OA-13 malformed requests', () => {
    it('404 for dynamic registration, which the metadata does not list', async () => {
      assert.equal((await auth.browser().visit('/oauth/register', {})).status, 404)
      const metadata = JSON.parse((await auth.browser().visit('/.well-known/openid-configuration')).text)
      assert.equal(metadata.registration_endpoint, undefined)
      assert.equal(metadata.userinfo_endpoint, `${auth.baseUrl}/oauth/userinfo`)
    })

    it('invalid_request for a parameter sent twice, 414 for an overlong URL; unknown parameters are ignored', async () => {
      const app = await auth.client()
      const one = auth.browser()
      const twice = sentTo(await one.visit(`${authorizeUrl(app.id)}&scope=email`))
      assert.equal(twice.searchParams.get('error'), 'invalid_request')
      const large = await one.once(`${auth.baseUrl}${authorizeUrl(app.id)}${'x'.repeat(9_000)}`)
      assert.equal(large.status, 414)
      assert.ok(formAction(await one.visit(`${authorizeUrl(app.id)}&unheard=of`), 'login'))
    })

    it('invalid_scope if no scope is known, and for a scope that the client may not have', async () => {
      const app = await auth.client({ scopes: ['openid'] })
      for (const scope of ['', 'openid admin', 'nope', 'nope nothing']) {
        const back = sentTo(await auth.browser().visit(authorizeUrl(app.id, { scope })))
        assert.equal(back.searchParams.get('error'), 'invalid_scope')
      }
    })

    it('invalid_scope with state and iss for an unknown scope among known scopes, before the login', async () => {
      const app = await auth.client()
      for (const more of [{}, { prompt: 'none' }, { response_mode: 'fragment' }] as Parameters[]) {
        const url = authorizeUrl(app.id, { scope: 'openid users:read nope users:reed', state: 'a & b', ...more })
        const back = sentTo(await auth.browser().visit(url))
        assert.equal(back.origin + back.pathname, redirectUri)
        const parameters = 'response_mode' in more ? new URLSearchParams(back.hash.slice(1)) : back.searchParams
        assert.deepEqual(Object.fromEntries(parameters), {
          error: 'invalid_scope',
          error_description: 'the service has no such scope',
          scope: 'nope users:reed',
          state: 'a & b',
          iss: auth.baseUrl,
        })
      }
    })

    it('invalid_scope for an unknown scope, even after consent; 400 without a redirect if redirect_uri is also wrong', async () => {
      const app = await auth.client()
      const one = auth.browser()
      assert.ok(
        (await one.authorize(new URL(authorizeUrl(app.id), auth.baseUrl).href, auth.user)).searchParams.get('code'),
      )
      const back = sentTo(await one.visit(authorizeUrl(app.id, { scope: 'openid nope' })))
      assert.deepEqual([back.searchParams.get('error'), back.searchParams.get('code')], ['invalid_scope', null])
      const wrong = authorizeUrl(app.id, { scope: 'openid nope', redirect_uri: 'https://other.example/cb' })
      const { status, headers } = await auth.browser().visit(wrong)
      assert.deepEqual([status, headers.location], [400, undefined])
    })

    it('303 for an authorization request sent as a form: redirects to the same request as a GET, which shows the login page', async () => {
      const app = await auth.client()
      const form = Object.fromEntries(new URL(authorizeUrl(app.id), auth.baseUrl).searchParams)
      const one = auth.browser()
      const { status, headers } = await one.once(`${auth.baseUrl}/oauth/authorize`, form)
      assert.equal(status, 303)
      assert.equal(headers.location, authorizeUrl(app.id))
      assert.ok(formAction(await one.visit(String(headers.location)), 'login'))
    })
  })

  it('a public client gets and refreshes tokens without a secret', async () => {
    const app = await auth.client({ secret: null, grants: codeGrants })
    const config = await auth.relyingParty(app)
    const { tokens } = await codeFlow(config, auth.browser(), auth.user)
    assert.ok((await openid.refreshTokenGrant(config, tokens.refresh_token as string)).refresh_token)
  })
})
